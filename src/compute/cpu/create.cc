#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

constexpr int kMaxThreads = 1024;
int64_t scratch_bytes(const BackendLimits& limits, int threads) {
  int64_t bytes = 0;
  Scratch::lay_out(limits, threads, [&](int64_t count, int64_t each) -> void* {
    bytes += platform::aligned_bytes(count * each);
    return nullptr;
  });
  return bytes;
}

Status check_threads(const char* setting, int threads) {
  if (threads >= 1 && threads <= kMaxThreads) return {};
  return Error{ErrorCode::kUsage, std::string(setting) + ": " + std::to_string(threads) + " is not between 1 and " +
                                      std::to_string(kMaxThreads)};
}

}  // namespace

CpuBackend::CpuBackend(const Isa& isa, const BackendOptions& options, std::unique_ptr<ThreadPool> pool,
                       platform::Arena arena)
    : isa_(isa),
      kernels_(*isa.kernels),
      recurrent_(*isa.recurrent),
      limits_(options.limits),
      float_activations_(options.float_activations),
      router_threads_(options.router_threads),
      pool_(std::move(pool)),
      arena_(std::move(arena)) {
  scratch_ = Scratch::lay_out(limits_, pool_->threads(),
                              [&](int64_t count, int64_t each) -> void* { return arena_.take(count * each); });
  COLIBRI_CHECK(arena_.used_bytes() == scratch_bytes(limits_, pool_->threads()));
}

int64_t cpu_backend_scratch_bytes(const BackendOptions& options) {
  return scratch_bytes(options.limits, options.threads);
}

Result<std::unique_ptr<Backend>> create_cpu_backend(const BackendOptions& options) {
  COLIBRI_ASSIGN(const Isa* isa, find_isa(options.isa));
  COLIBRI_TRY(check_threads("threads", options.threads));
  COLIBRI_TRY(check_threads("router_threads", options.router_threads));
  COLIBRI_ASSIGN(auto pool, ThreadPool::create(options.threads));
  auto arena = platform::Arena::allocate(cpu_backend_scratch_bytes(options));
  if (!arena.ok()) return std::move(std::move(arena).with_context("scratch memory")).error();
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(*isa, options, std::move(pool), std::move(*arena)));
}

}  // namespace colibri::compute
