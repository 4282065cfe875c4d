// The router: from logits to experts and their weights.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

/// Inserts (id, weight) into the k best so far, which are ordered by descending weight. Ids come ascending, so an equal
/// weight goes behind those before it.
void insert_best(int32_t id, float weight, int k, int* count, int32_t* ids, float* weights) {
  int place = *count;
  if (*count < k) {
    ++*count;
  } else if (weight > weights[k - 1]) {
    place = k - 1;
  } else {
    return;
  }
  for (; place > 0 && weight > weights[place - 1]; --place) {
    ids[place] = ids[place - 1];
    weights[place] = weights[place - 1];
  }
  ids[place] = id;
  weights[place] = weight;
}

void choose_best(const float* probabilities, const RouterParams& p, int32_t* ids, float* weights) {
  int count = 0;
  for (int32_t e = 0; e < p.n_experts; ++e) insert_best(e, probabilities[e], p.top_k, &count, ids, weights);
  float sum = 0.0f;
  for (int j = 0; j < p.top_k; ++j) sum += weights[j];
  for (int j = 0; j < p.top_k; ++j) {
    if (p.renormalise) weights[j] /= sum;
    weights[j] *= p.scale;
  }
}

}  // namespace

void CpuBackend::route(Rows logits, const RouterParams& p, int32_t* ids, float* weights) {
  COLIBRI_CHECK(p.kind == RouterKind::kSoftmaxTopK && logits.width == p.n_experts);
  COLIBRI_CHECK(p.top_k >= 1 && p.top_k <= p.n_experts && logits.rows <= limits_.max_rows &&
                p.n_experts <= limits_.n_experts);
  for_each_row(logits.rows, logits.width, [&](int64_t r) {
    float* probabilities = scratch_.probabilities + r * logits.width;
    kernels_.softmax(logits.row(r), logits.width, probabilities);
    choose_best(probabilities, p, ids + r * p.top_k, weights + r * p.top_k);
  });
}

}  // namespace colibri::compute
