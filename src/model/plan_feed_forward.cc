// Which tensors dense MLPs and mixtures of experts need, in each of the layouts in which files have them.
#include "model/weight_planner.h"

namespace colibri::model {

using formats::TensorInfo;
using store::ExpertSource;
using store::MatrixSource;

namespace {

bool is_quantised(const TensorInfo& tensor) {
  return tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16;
}

}  // namespace

Status WeightPlanner::dense(int64_t width, ExpertWeights* w) {
  const int64_t hidden = spec_.hidden_size;
  if (gated()) COLIBRI_TRY(matrix(names_.gate, width, hidden, &w->gate));
  COLIBRI_TRY(matrix(names_.up, width, hidden, &w->up));
  return matrix(names_.down, hidden, width, &w->down);
}

Status WeightPlanner::moe(const LayerSpec& layer, MoeWeights& w) {
  COLIBRI_TRY(router(layer, w));
  if (spec_.moe.own_norms) {
    COLIBRI_TRY(norm(names_.experts_norm, spec_.hidden_size, &w.norm));
    COLIBRI_TRY(norm(names_.experts_post_norm, spec_.hidden_size, &w.post_norm));
  }
  if (spec_.moe.expert_bias) COLIBRI_TRY(expert_biases(w));
  COLIBRI_TRY(experts());
  return spec_.moe.shared_width > 0 ? shared_expert(w) : Status{};
}

Status WeightPlanner::router(const LayerSpec& layer, MoeWeights& w) {
  const MoeSpec& m = spec_.moe;
  const int64_t n = m.router.n_experts, hidden = spec_.hidden_size;
  COLIBRI_TRY(matrix(names_.router, n, hidden, &w.router));
  COLIBRI_TRY(bias(m.router_bias, names_.router, n, &w.router_bias));
  if (m.choice_bias && !layer.hash_moe) COLIBRI_TRY(bias(true, names_.choice_bias, n, &w.choice_bias));
  if (m.expert_scale) COLIBRI_TRY(vector(names_.expert_scale, n, &w.expert_scale));
  if (m.router_norm_scale > 0) {
    VectorJob job;
    job.change = VectorJob::Change::kScale;
    job.factor = m.router_norm_scale;
    COLIBRI_TRY(vector(names_.router_norm, hidden, &w.router_norm, job));
  }
  if (!layer.hash_moe) return {};
  const TensorInfo* table = find(names_.token_experts);
  if (table == nullptr) return missing(names_.token_experts);
  const Shape expected{spec_.vocab_size, m.router.top_k};
  if (!(table->shape == expected) || (table->dtype != DType::kI64 && table->dtype != DType::kI32))
    return wrong_shape(*table, expected);
  used_.insert(table);
  plan_.tables_.push_back({table, &w.token_experts, expected.elements(), static_cast<int32_t>(n)});
  return {};
}

Status WeightPlanner::shared_expert(MoeWeights& w) {
  const MoeSpec& m = spec_.moe;
  const int64_t width = m.shared_width, hidden = spec_.hidden_size;
  if (has(names_.shared_gate_up)) {
    COLIBRI_TRY(matrix(names_.shared_gate_up, width, hidden, &w.shared.gate, {2 * width, 0}));
    COLIBRI_TRY(matrix(names_.shared_gate_up, width, hidden, &w.shared.up, {2 * width, width}));
  } else {
    if (gated()) COLIBRI_TRY(matrix(names_.shared_gate, width, hidden, &w.shared.gate));
    COLIBRI_TRY(matrix(names_.shared_up, width, hidden, &w.shared.up));
  }
  COLIBRI_TRY(matrix(names_.shared_down, hidden, width, &w.shared.down));
  return m.shared_gate ? matrix(names_.shared_router, 1, hidden, &w.shared_router) : Status{};
}

Status WeightPlanner::expert_biases(MoeWeights& w) {
  const int64_t n = spec_.moe.n_stored(), width = spec_.moe.expert_width;
  COLIBRI_TRY(bias(true, names_.stacked_down_bias, n * spec_.hidden_size, &w.down_bias));
  if (!has(names_.stacked_gate_up_bias)) {
    COLIBRI_TRY(bias(true, names_.stacked_gate, n * width, &w.gate_bias));
    return bias(true, names_.stacked_up, n * width, &w.up_bias);
  }
  // [n, 2 width], gate and up in turn: the only layout that has been seen.
  VectorJob job;
  job.n = 2 * n * width;
  job.step = 2;
  COLIBRI_TRY(vector(names_.stacked_gate_up_bias, n * width, &w.gate_bias, job));
  job.first = 1;
  return vector(names_.stacked_gate_up_bias, n * width, &w.up_bias, job);
}

Status WeightPlanner::experts() {
  for (int e = 0; e < spec_.moe.n_stored(); ++e) {
    ExpertSource source;
    COLIBRI_TRY(expert(e, &source));
    plan_.experts_.push_back(source);
  }
  return {};
}

Status WeightPlanner::expert(int e, ExpertSource* target) {
  const int64_t width = spec_.moe.expert_width, hidden = spec_.hidden_size;
  if (has(names_.stacked_gate_up)) {
    const bool alternate = names_.gate_up_interleaved;
    COLIBRI_TRY(stacked(names_.stacked_gate_up, e, width, hidden, 0, 2 * width, alternate, &target->gate));
    COLIBRI_TRY(
        stacked(names_.stacked_gate_up, e, width, hidden, alternate ? 1 : width, 2 * width, alternate, &target->up));
  } else {
    const bool whole = has(names_.stacked_up);
    if (whole) {
      if (gated()) COLIBRI_TRY(stacked(names_.stacked_gate, e, width, hidden, 0, width, false, &target->gate));
      COLIBRI_TRY(stacked(names_.stacked_up, e, width, hidden, 0, width, false, &target->up));
    } else {
      if (gated()) {
        COLIBRI_ASSIGN(target->gate, source(names_.expert_gate, Shape{width, hidden}, e));
      }
      COLIBRI_ASSIGN(target->up, source(names_.expert_up, Shape{width, hidden}, e));
    }
  }
  if (has(names_.stacked_down)) return stacked(names_.stacked_down, e, hidden, width, 0, hidden, false, &target->down);
  COLIBRI_ASSIGN(target->down, source(names_.expert_down, Shape{hidden, width}, e));
  return {};
}

/// Expert `e` of a tensor that holds all of them: n outputs out of `rows`, from `first` on, every second if
/// `alternate`.
Status WeightPlanner::stacked(const char* pattern, int e, int64_t n, int64_t k, int64_t first, int64_t rows,
                              bool alternate, MatrixSource* target) {
  const TensorInfo* tensor = find(pattern);
  // Quantised experts always have outputs before inputs.
  const bool transposed = names_.stacked_transposed && tensor != nullptr && !is_quantised(*tensor);
  COLIBRI_ASSIGN(const MatrixSource all, source(pattern, transposed ? Shape{spec_.moe.n_stored(), k, rows}
                                                                    : Shape{spec_.moe.n_stored(), rows, k}));
  const int64_t block = alternate ? 1 : 0, stride = alternate ? 2 : 0;
  *target = transposed ? store::select_transposed(all, first, n, e * k, k, block, stride)
                       : store::select_rows(all, e * rows + first, n, block, stride);
  return {};
}

}  // namespace colibri::model
