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

RouteJob route_job(Rows logits, const RouterParams& params, int32_t* ids, float* weights) {
  return {logits.data, logits.rows, params, ids, weights};
}

}  // namespace

Status check_router(const RouterParams& p) {
  const auto between = [](int64_t value, int64_t most) { return value >= 1 && value <= most; };
  if (p.kind > RouterKind::kSqrtSoftplus || p.group_score > GroupScore::kTwoLargest)
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
  if (!std::isfinite(p.scale) || !std::isfinite(p.sum_offset) || p.sum_offset < 0)
    return Error{ErrorCode::kUsage, "router: scale " + std::to_string(p.scale) + " and sum offset " +
                                        std::to_string(p.sum_offset) + " must be finite, the offset not negative"};
  return {};
}

// As many tasks as threads may take part, and no more than are worth waking them.
void CpuBackend::route(Rows logits, const RouterParams& p, int32_t* ids, float* weights) {
  COLIBRI_CHECK(check_router(p).ok() && logits.width == p.n_experts);
  constexpr int64_t kElementsPerTask = 16 * 1024;
  const int64_t blocks = ceil_div(logits.rows, kBlockRows);
  const int64_t worth = ceil_div(logits.rows * logits.width, kElementsPerTask);
  const int64_t tasks = std::min({blocks, worth, int64_t{router_threads_}});
  pool_->run(tasks, [&](int64_t task, int) {
    const int64_t first = blocks * task / tasks * kBlockRows;
    const int64_t end = std::min(logits.rows, blocks * (task + 1) / tasks * kBlockRows);
    const RouteJob job =
        route_job(logits.slice(first, end - first), p, ids + first * p.top_k, weights + first * p.top_k);
    kernels_.route(&job);
  });
}

Status route(Rows logits, const RouterParams& params, int32_t* ids, float* weights) {
  COLIBRI_TRY(check_router(params));
  COLIBRI_CHECK(logits.width == params.n_experts);
  static const Isa* const isa = find_isa("auto").value();
  const RouteJob job = route_job(logits, params, ids, weights);
  isa->kernels->route(&job);
  return {};
}

}  // namespace colibri::compute
