#include "model/weights.h"

#include <cmath>
#include <cstring>

#include "base/math.h"
#include "model/weight_planner.h"
#include "tensor/convert.h"

namespace colibri::model {
namespace {

std::string path_of(const formats::TensorCatalog& catalog, const formats::TensorInfo& tensor) {
  return catalog.files()[static_cast<size_t>(tensor.file)].path();
}

// Where element i of the canonical vector stands among the job's elements in the file.
int64_t stored_index(const VectorJob& job, int64_t i) {
  if (job.interleaved_heads > 0) return store::interleaved_row(i, job.n / job.interleaved_heads);
  if (job.transposed_inner == 0) return i;
  const int64_t outer = job.n / job.transposed_inner;
  return i % outer * job.transposed_inner + i / outer;
}

float changed(const VectorJob& job, float value) {
  switch (job.change) {
    case VectorJob::Change::kPlusOne:
      return value + 1.0f;
    case VectorJob::Change::kMinusExp:
      return value < 700.0f && value > -700.0f ? static_cast<float>(-exact_exp(static_cast<double>(value)))
                                               : -HUGE_VALF;
    case VectorJob::Change::kScale:
      return value * job.factor;
    case VectorJob::Change::kNone:
      break;
  }
  return value;
}

Status read_table(const formats::TensorCatalog& catalog, const TableJob& job, int32_t* out) {
  std::vector<std::byte> raw(static_cast<size_t>(job.tensor->bytes));
  COLIBRI_TRY(catalog.read(*job.tensor, 0, raw));
  const bool wide = job.tensor->dtype == DType::kI64;
  for (int64_t i = 0; i < job.n; ++i) {
    int64_t value = 0;
    int32_t narrow = 0;
    std::memcpy(wide ? static_cast<void*>(&value) : &narrow, raw.data() + i * (wide ? 8 : 4), wide ? 8 : 4);
    if (!wide) value = narrow;
    if (value < 0 || value >= job.end)
      return Error{ErrorCode::kInvalidModel, path_of(catalog, *job.tensor) + ": tensor " + job.tensor->name +
                                                 " names expert " + std::to_string(value) + " at index " +
                                                 std::to_string(i) + ", but there are " + std::to_string(job.end)};
    out[i] = static_cast<int32_t>(value);
  }
  return {};
}

}  // namespace

Result<WeightPlan> WeightPlan::make(const ModelDescription& description, const formats::TensorCatalog& catalog) {
  return WeightPlanner(description, catalog).run();
}

int64_t WeightPlan::expert_bytes() const { return store::resident_store_bytes(experts_); }

Status read_vector(const formats::TensorCatalog& catalog, const VectorJob& job, float* out) {
  const int64_t all = job.tensor->shape.elements();
  std::vector<std::byte> raw(static_cast<size_t>(job.tensor->bytes));
  COLIBRI_TRY(catalog.read(*job.tensor, 0, raw));
  std::vector<float> values(static_cast<size_t>(all));
  convert_to_f32(job.tensor->dtype, raw.data(), all, values.data());
  for (int64_t i = 0; i < job.n; ++i) {
    const int64_t at = job.first + stored_index(job, i) * job.step;
    out[i] = changed(job, values[static_cast<size_t>(at)]);
    if (std::isfinite(out[i])) continue;
    return Error{ErrorCode::kInvalidModel, path_of(catalog, *job.tensor) + ": tensor " + job.tensor->name + " holds " +
                                               (std::isnan(out[i]) ? "NaN" : "infinity") + " at index " +
                                               std::to_string(at) + "; the file is damaged, fetch it again"};
  }
  return {};
}

// Biases are in memory with the dense weights, whatever becomes of their experts.
void WeightPlan::attach_biases() {
  const int64_t n = spec_->moe.n_stored(), width = spec_->moe.expert_width, hidden = spec_->hidden_size;
  size_t source = 0;
  for (size_t l = 0; l < spec_->layers.size() && spec_->moe.expert_bias; ++l) {
    if (!spec_->layers[l].moe) continue;
    const MoeWeights& w = weights_->layers[l].moe;
    for (int64_t e = 0; e < n; ++e, ++source) {
      experts_[source].gate_bias = w.gate_bias + e * width;
      experts_[source].up_bias = w.up_bias + e * width;
      experts_[source].down_bias = w.down_bias + e * hidden;
    }
  }
}

Result<std::unique_ptr<ModelWeights>> WeightPlan::place_dense(platform::Arena& arena, std::vector<store::LoadJob>& jobs,
                                                              const store::LoadProgress& progress) {
  for (const VectorJob& job : vectors_) {
    auto* out = reinterpret_cast<float*>(arena.take(job.n * static_cast<int64_t>(sizeof(float))));
    COLIBRI_TRY(read_vector(*catalog_, job, out));
    *job.target = out;
    if (progress && !progress(job.tensor->bytes)) return Error{ErrorCode::kCancelled, "loading was interrupted"};
  }
  for (const TableJob& job : tables_) {
    auto* out = reinterpret_cast<int32_t*>(arena.take(job.n * static_cast<int64_t>(sizeof(int32_t))));
    COLIBRI_TRY(read_table(*catalog_, job, out));
    *job.target = out;
    if (progress && !progress(job.tensor->bytes)) return Error{ErrorCode::kCancelled, "loading was interrupted"};
  }
  for (const MatrixJob& job : matrices_) {
    std::byte* data = arena.take(job.source.packed_size());
    jobs.push_back({job.source, data});
    *job.target = {job.source.encoding, job.source.n, job.source.k, data};
  }
  if (tied_head_) weights_->head = weights_->embed;
  attach_biases();
  return std::move(weights_);
}

}  // namespace colibri::model
