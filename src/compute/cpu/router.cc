// The router: from logits to experts and their weights. The kernels do the work (kernels/router_inl.h).
#include <cmath>

#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

constexpr int64_t kBlockRows = kLanes;  // rows that a kernel takes together

Status out_of_range(const char* what, int64_t value, int64_t most) {
  return Error{ErrorCode::kUsage, std::string("router: ") + what + " is " + std::to_string(value) +
                                      ", which is not between 1 and " + std::to_string(most)};
}

/// Rows [first, end) of a job.
RouteJob part(RouteJob job, int64_t first, int64_t end) {
  const int64_t at = first * job.params.top_k;
  job.logits += first * job.params.n_experts;
  job.rows = end - first;
  job.weights += at;
  if (job.given != nullptr) {
    job.given += at;
  } else {
    job.ids += at;
  }
  return job;
}

}  // namespace

Status check_router(const RouterParams& p) {
  const auto between = [](int64_t value, int64_t most) { return value >= 1 && value <= most; };
  if (p.kind > RouterKind::kSparseMixer || p.group_score > GroupScore::kTwoLargest)
    return Error{ErrorCode::kUsage, "router: unknown kind " + std::to_string(static_cast<int>(p.kind)) +
                                        " or group score " + std::to_string(static_cast<int>(p.group_score))};
  if (!between(p.n_experts, kMaxRouterExperts)) return out_of_range("experts", p.n_experts, kMaxRouterExperts);
  if (!between(p.top_k, p.n_experts)) return out_of_range("k", p.top_k, p.n_experts);
  if (!between(p.n_groups, kMaxRouterGroups)) return out_of_range("groups", p.n_groups, kMaxRouterGroups);
  if (!between(p.top_groups, p.n_groups)) return out_of_range("top groups", p.top_groups, p.n_groups);
  const int size = p.n_experts / p.n_groups;
  if (size * p.n_groups != p.n_experts || (p.n_groups > 1 && p.group_score == GroupScore::kTwoLargest && size < 2))
    return Error{ErrorCode::kUsage, "router: " + std::to_string(p.n_experts) + " experts do not make " +
                                        std::to_string(p.n_groups) + " equal groups, of two or more for their sum"};
  if (p.top_k > size * p.top_groups) return out_of_range("k", p.top_k, int64_t{size} * p.top_groups);
  const auto is_size = [](float x) { return std::isfinite(x) && x >= 0; };
  if (!std::isfinite(p.scale) || !is_size(p.sum_offset) || !is_size(p.sum_floor) || !is_size(p.jitter))
    return Error{ErrorCode::kUsage, "router: scale " + std::to_string(p.scale) + ", sum offset " +
                                        std::to_string(p.sum_offset) + ", sum floor " + std::to_string(p.sum_floor) +
                                        " and jitter " + std::to_string(p.jitter) +
                                        " must be finite, all but the scale not negative"};
  if (p.kind == RouterKind::kSparseMixer && (p.top_k != 2 || p.n_groups != 1 || p.bias != nullptr || p.renormalise))
    return Error{ErrorCode::kUsage, "router: a sparse mixer chooses two experts (not " + std::to_string(p.top_k) +
                                        ") without groups or a bias, and does not renormalise"};
  return {};
}

void CpuBackend::route(Rows logits, const RouterParams& p, int32_t* ids, float* weights) {
  COLIBRI_CHECK(check_router(p).ok() && logits.width == p.n_experts);
  share_route({logits.data, logits.rows, p, ids, weights});
}

void CpuBackend::weigh(Rows logits, const RouterParams& p, const int32_t* ids, float* weights) {
  COLIBRI_CHECK(check_router(p).ok() && logits.width == p.n_experts && p.kind != RouterKind::kSparseMixer);
  for (int64_t i = 0; i < logits.rows * p.top_k; ++i) COLIBRI_CHECK(ids[i] >= 0 && ids[i] < p.n_experts);
  share_route({logits.data, logits.rows, p, nullptr, weights, ids});
}

// As many tasks as threads may take part, and no more than are worth waking them.
void CpuBackend::share_route(const RouteJob& whole) {
  constexpr int64_t kElementsPerTask = 16 * 1024;
  const int64_t blocks = ceil_div(whole.rows, kBlockRows);
  const int64_t worth = ceil_div(whole.rows * whole.params.n_experts, kElementsPerTask);
  const int64_t tasks = std::min({blocks, worth, int64_t{router_threads_}});
  pool_->run(tasks, [&](int64_t task, int) {
    const int64_t first = blocks * task / tasks * kBlockRows;
    const RouteJob job = part(whole, first, std::min(whole.rows, blocks * (task + 1) / tasks * kBlockRows));
    kernels_.route(&job);
  });
}

Status route(Rows logits, const RouterParams& params, int32_t* ids, float* weights) {
  COLIBRI_TRY(check_router(params));
  COLIBRI_CHECK(logits.width == params.n_experts);
  static const Isa* const isa = find_isa("auto").value();
  const RouteJob job{logits.data, logits.rows, params, ids, weights};
  isa->kernels->route(&job);
  return {};
}

}  // namespace colibri::compute
