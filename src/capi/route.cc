// The router alone.
#include <limits>

#include "capi/border.h"
#include "compute/backend.h"

using namespace colibri;

static_assert(COLIBRI_ROUTER_MAX_EXPERTS == compute::kMaxRouterExperts);
static_assert(COLIBRI_ROUTER_MAX_GROUPS == compute::kMaxRouterGroups);

namespace {

Result<compute::RouterParams> to_params(const colibri_router& router) {
  if (router.kind < COLIBRI_ROUTER_SOFTMAX_RENORMALISED || router.kind > COLIBRI_ROUTER_SQRT_SOFTPLUS)
    return Error{ErrorCode::kUsage, "router: there is no kind " + std::to_string(router.kind) + "; there are 0 to " +
                                        std::to_string(COLIBRI_ROUTER_SQRT_SOFTPLUS)};
  compute::RouterParams p;
  p.kind = static_cast<compute::RouterKind>(router.kind / 2);
  p.renormalise = router.kind % 2 == 0;
  p.n_experts = router.experts;
  p.top_k = router.k;
  p.scale = router.scale;
  p.sum_offset = router.sum_offset;
  p.bias = router.bias;
  p.n_groups = router.groups;
  p.top_groups = router.top_groups;
  p.group_score = router.two_largest != 0 ? compute::GroupScore::kTwoLargest : compute::GroupScore::kLargest;
  COLIBRI_TRY(compute::check_router(p));
  return p;
}

Status route(const colibri_router& router, const float* logits, int64_t rows, int32_t* ids, float* weights) {
  COLIBRI_ASSIGN(const compute::RouterParams params, to_params(router));
  const int64_t most = std::numeric_limits<ptrdiff_t>::max() / (int64_t{sizeof(float)} * params.n_experts);
  if (rows < 0 || rows > most)
    return Error{ErrorCode::kUsage,
                 "router: rows is " + std::to_string(rows) + ", which is not between 0 and " + std::to_string(most)};
  if (rows == 0) return {};
  if (logits == nullptr) return capi::missing_argument("logits");
  if (ids == nullptr || weights == nullptr) return capi::missing_argument(ids == nullptr ? "ids" : "weights");
  // Rows point to what may be written; the router only reads its logits.
  return compute::route({const_cast<float*>(logits), rows, params.n_experts}, params, ids, weights);
}

}  // namespace

extern "C" {

void colibri_router_init(colibri_router* router) {
  if (router == nullptr) return;
  *router = {};
  router->struct_size = sizeof(*router);
  router->kind = COLIBRI_ROUTER_SOFTMAX_RENORMALISED;
  router->scale = 1.0f;
  router->groups = router->top_groups = 1;
}

colibri_status colibri_route(const float* logits, int64_t rows, int32_t experts, int32_t kind, int32_t k, int32_t* ids,
                             float* weights) {
  colibri_router router;
  colibri_router_init(&router);
  router.kind = kind;
  router.experts = experts;
  router.k = k;
  return capi::guarded(nullptr, [&] { return route(router, logits, rows, ids, weights); });
}

colibri_status colibri_route_with(const colibri_router* router, const float* logits, int64_t rows, int32_t* ids,
                                  float* weights, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (router == nullptr) return capi::missing_argument("router");
    if (router->struct_size < sizeof(*router)) return capi::missing_size("router");
    return route(*router, logits, rows, ids, weights);
  });
}

}  // extern "C"
