#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int64_t kElementBytes = 4;
static_assert(sizeof(float) == kElementBytes && sizeof(int32_t) == kElementBytes);

}  // namespace

CpuBackend::CpuBackend(const Isa& isa, const BackendLimits& limits, std::unique_ptr<ThreadPool> pool,
                       platform::Arena arena)
    : isa_(isa), kernels_(*isa.kernels), limits_(limits), pool_(std::move(pool)), arena_(std::move(arena)) {
  scratch_ = Scratch::lay_out(limits_, pool_->threads(),
                              [&](int64_t elements) -> void* { return arena_.take(elements * kElementBytes); });
  COLIBRI_DCHECK(arena_.used_bytes() == arena_.size_bytes());
}

int64_t cpu_backend_scratch_bytes(const BackendOptions& options) {
  int64_t bytes = 0;
  Scratch::lay_out(options.limits, options.threads, [&](int64_t elements) -> void* {
    bytes += platform::aligned_bytes(elements * kElementBytes);
    return nullptr;
  });
  return bytes;
}

Result<std::unique_ptr<Backend>> create_cpu_backend(const BackendOptions& options) {
  COLIBRI_ASSIGN(const Isa* isa, find_isa(options.isa));
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return Error{ErrorCode::kUsage, "threads: " + std::to_string(options.threads) + " is not between 1 and " +
                                        std::to_string(kMaxThreads)};
  }
  COLIBRI_ASSIGN(auto pool, ThreadPool::create(options.threads));
  auto arena = platform::Arena::allocate(cpu_backend_scratch_bytes(options));
  if (!arena.ok()) return std::move(std::move(arena).with_context("scratch memory")).error();
  return std::unique_ptr<Backend>(
      std::make_unique<CpuBackend>(*isa, options.limits, std::move(pool), std::move(*arena)));
}

}  // namespace colibri::compute
