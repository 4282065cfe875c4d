#include "model/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "store/quantised_source.h"
#include "tensor/convert.h"

namespace colibri::model {

using formats::TensorInfo;
using store::ExpertSource;
using store::MatrixSource;

namespace {

std::string expand(std::string pattern, int layer, int expert) {
  const auto replace = [&pattern](std::string_view mark, int value) {
    if (const size_t at = pattern.find(mark); at != std::string::npos)
      pattern.replace(at, mark.size(), std::to_string(value));
  };
  replace("{L}", layer);
  replace("{E}", expert);
  return pattern;
}

// Tensors that files carry though nothing reads them.
bool ignorable(const TensorInfo& tensor, bool tied_head) {
  constexpr std::array<std::string_view, 4> kSuffixes = {"rotary_emb.inv_freq", "attn.masked_bias", "attn.bias",
                                                         "rope_freqs.weight"};
  for (const std::string_view suffix : kSuffixes)
    if (tensor.name.ends_with(suffix)) return true;
  return tied_head && tensor.name.ends_with("lm_head.weight");
}

// " F32, F16, ...": every type that has an encoding.
std::string types_read() {
  std::string types;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (encoding_for(dtype)) types += (types.empty() ? " " : ", ") + std::string(info(dtype).name);
  }
  return types;
}

}  // namespace

// Walks the spec once and turns it into jobs.
class WeightPlanner {
 public:
  WeightPlanner(const ModelDescription& description, const formats::TensorCatalog& catalog)
      : description_(description), spec_(description.spec), names_(*description.names), catalog_(catalog) {
    plan_.catalog_ = &catalog;
    plan_.tied_head_ = spec_.tied_head;
    plan_.weights_ = std::make_unique<ModelWeights>();
    plan_.weights_->layers.resize(spec_.layers.size());
  }

  Result<WeightPlan> run() {
    find_prefix();
    ModelWeights& w = *plan_.weights_;
    COLIBRI_TRY(matrix(names_.embed, spec_.vocab_size, spec_.hidden_size, &w.embed));
    COLIBRI_TRY(vector(names_.final_norm, spec_.hidden_size, &w.final_norm));
    if (!spec_.tied_head) COLIBRI_TRY(matrix(names_.head, spec_.vocab_size, spec_.hidden_size, &w.head));
    for (layer_ = 0; layer_ < spec_.n_layers(); ++layer_) COLIBRI_TRY(layer());
    COLIBRI_TRY(refuse_leftovers());
    add_up();
    return std::move(plan_);
  }

 private:
  // Hugging Face saves of bare or wrapped models drop or extend the usual "model." in front.
  void find_prefix() {
    for (const std::string_view prefix : {"model.", "", "model.language_model.", "language_model.model."}) {
      if (catalog_.find(std::string(prefix) + "embed_tokens.weight") == nullptr) continue;
      prefix_ = prefix;
      return;
    }
  }

  std::string full_name(const char* pattern, int expert) const {
    std::string name = expand(pattern, layer_, expert);
    if (name.starts_with("model.")) name.replace(0, 6, prefix_);
    return name;
  }

  // NAME.weight, or NAME itself (fused expert tensors have no suffix).
  const TensorInfo* find(const char* pattern, int expert = 0) const {
    if (pattern == nullptr) return nullptr;
    return store::find_module(catalog_, full_name(pattern, expert));
  }

  // The matrix of a module, whatever its weights are stored as.
  Result<MatrixSource> whole(const char* pattern, int expert, const Shape& shape) {
    COLIBRI_ASSIGN(MatrixSource source,
                   store::find_matrix(catalog_, description_.quantisation, full_name(pattern, expert), shape));
    for (const TensorInfo* tensor : store::tensors_of(source)) used_.insert(tensor);
    return source;
  }

  std::string file_of(const TensorInfo& tensor) const {
    return catalog_.files()[static_cast<size_t>(tensor.file)].path();
  }

  Error missing(const std::string& name) const {
    return {ErrorCode::kInvalidModel, catalog_.files().front().path() + ": tensor " + name + " is missing (" +
                                          std::to_string(catalog_.tensors().size()) + " tensors in " +
                                          std::to_string(catalog_.files().size()) +
                                          " files); is a shard missing, or the config of another model?"};
  }

  Error wrong_shape(const TensorInfo& tensor, const Shape& expected) const {
    return {ErrorCode::kInvalidModel, file_of(tensor) + ": tensor " + tensor.name + " has shape " +
                                          tensor.shape.to_string() + ", the config of family " + spec_.family +
                                          " asks for " + expected.to_string()};
  }

  Status check(const TensorInfo& tensor, const Shape& expected) {
    if (!(tensor.shape == expected)) return wrong_shape(tensor, expected);
    if (!encoding_for(tensor.dtype))
      return Error{ErrorCode::kUnsupported, file_of(tensor) + ": tensor " + tensor.name + " is " +
                                                std::string(info(tensor.dtype).name) +
                                                ", which this version does not read; it reads" + types_read()};
    used_.insert(&tensor);
    return {};
  }

  Status matrix(const char* pattern, int64_t n, int64_t k, PackedMatrix* target, int heads = 0) {
    const TensorInfo* tensor = find(pattern);
    if (tensor == nullptr) return missing(full_name(pattern, 0) + ".weight");
    // A gate with one output is stored as [1, k] or [k].
    const bool flat = n == 1 && tensor->shape == Shape{k};
    COLIBRI_ASSIGN(const MatrixSource source, whole(pattern, 0, flat ? Shape{k} : Shape{n, k}));
    MatrixJob job{source, target};
    job.source.interleaved_heads = description_.interleaved_qk ? heads : 0;
    plan_.matrices_.push_back(job);
    return {};
  }

  Status vector_named(const std::string& name, int64_t n, const float** target, int heads) {
    const TensorInfo* tensor = catalog_.find(name);
    if (tensor == nullptr) return missing(name);
    COLIBRI_TRY(check(*tensor, Shape{n}));
    plan_.vectors_.push_back({tensor, n, description_.interleaved_qk ? heads : 0, target});
    return {};
  }

  Status vector(const char* pattern, int64_t n, const float** target) {
    return vector_named(full_name(pattern, 0) + ".weight", n, target, 0);
  }

  Status projection(const char* pattern, int64_t n, int64_t k, bool bias, PackedMatrix* weight,
                    const float** bias_target, int heads = 0) {
    COLIBRI_TRY(matrix(pattern, n, k, weight, heads));
    if (!bias) return {};
    return vector_named(full_name(pattern, 0) + ".bias", n, bias_target, heads);
  }

  Status mlp(const char* gate, const char* up, const char* down, int64_t width, ExpertWeights* target) {
    COLIBRI_TRY(matrix(gate, width, spec_.hidden_size, &target->gate));
    COLIBRI_TRY(matrix(up, width, spec_.hidden_size, &target->up));
    return matrix(down, spec_.hidden_size, width, &target->down);
  }

  Status layer() {
    LayerWeights& w = plan_.weights_->layers[static_cast<size_t>(layer_)];
    const LayerSpec& layer = spec_.layers[static_cast<size_t>(layer_)];
    COLIBRI_TRY(vector(names_.attention_norm, spec_.hidden_size, &w.attention_norm));
    COLIBRI_TRY(attention(w));
    COLIBRI_TRY(vector(names_.ffn_norm, spec_.hidden_size, &w.ffn_norm));
    return layer.moe ? moe(w) : mlp(names_.gate, names_.up, names_.down, layer.dense_width, &w.dense);
  }

  Status attention(LayerWeights& w) {
    const AttentionSpec& a = spec_.attention;
    const int64_t hidden = spec_.hidden_size;
    COLIBRI_TRY(projection(names_.q, spec_.query_width(), hidden, a.qkv_bias, &w.q, &w.q_bias, a.n_heads));
    COLIBRI_TRY(projection(names_.k, spec_.kv_width(), hidden, a.qkv_bias, &w.k, &w.k_bias, a.n_kv_heads));
    COLIBRI_TRY(projection(names_.v, spec_.kv_width(), hidden, a.qkv_bias, &w.v, &w.v_bias));
    COLIBRI_TRY(projection(names_.output, hidden, spec_.query_width(), a.output_bias, &w.output, &w.output_bias));
    if (a.qk_norm == QkNorm::kNone) return {};
    const bool per_head = a.qk_norm == QkNorm::kPerHead;
    COLIBRI_TRY(vector(names_.q_norm, per_head ? a.head_dim : spec_.query_width(), &w.q_norm));
    return vector(names_.k_norm, per_head ? a.head_dim : spec_.kv_width(), &w.k_norm);
  }

  Status moe(LayerWeights& w) {
    const MoeSpec& m = spec_.moe;
    COLIBRI_TRY(matrix(names_.router, m.router.n_experts, spec_.hidden_size, &w.router));
    COLIBRI_TRY(experts());
    if (m.shared_width == 0) return {};
    COLIBRI_TRY(mlp(names_.shared_gate, names_.shared_up, names_.shared_down, m.shared_width, &w.shared));
    return m.shared_gate ? matrix(names_.shared_router, 1, spec_.hidden_size, &w.shared_router) : Status{};
  }

  Status experts() {
    for (int e = 0; e < spec_.moe.router.n_experts; ++e) {
      ExpertSource expert;
      COLIBRI_TRY(expert_gate_up(e, &expert));
      COLIBRI_TRY(expert_matrix(names_.expert_down, names_.stacked_down, e, spec_.hidden_size, spec_.moe.expert_width,
                                &expert.down));
      plan_.experts_.push_back(expert);
    }
    return {};
  }

  Status expert_gate_up(int e, ExpertSource* expert) {
    const int64_t width = spec_.moe.expert_width;
    const int64_t hidden = spec_.hidden_size;
    if (find(names_.stacked_gate_up) != nullptr) {
      COLIBRI_ASSIGN(const MatrixSource fused,
                     whole(names_.stacked_gate_up, 0, Shape{spec_.moe.router.n_experts, 2 * width, hidden}));
      expert->gate = store::select_rows(fused, 2 * e * width, width);
      expert->up = store::select_rows(fused, (2 * e + 1) * width, width);
      return {};
    }
    COLIBRI_TRY(expert_matrix(names_.expert_gate, names_.stacked_gate, e, width, hidden, &expert->gate));
    return expert_matrix(names_.expert_up, names_.stacked_up, e, width, hidden, &expert->up);
  }

  Status expert_matrix(const char* single, const char* stacked, int e, int64_t n, int64_t k, MatrixSource* target) {
    if (find(stacked) != nullptr) {
      COLIBRI_ASSIGN(const MatrixSource all, whole(stacked, 0, Shape{spec_.moe.router.n_experts, n, k}));
      *target = store::select_rows(all, e * n, n);
      return {};
    }
    COLIBRI_ASSIGN(*target, whole(single, e, Shape{n, k}));
    return {};
  }

  // A tensor that nothing reads means that the file computes something which this spec does not.
  Status refuse_leftovers() const {
    for (const TensorInfo& tensor : catalog_.tensors()) {
      if (used_.contains(&tensor) || ignorable(tensor, spec_.tied_head)) continue;
      if (!description_.quantisation.schemes.empty() && store::beside_quantised(tensor.name)) continue;
      return Error{ErrorCode::kUnsupported, file_of(tensor) + ": tensor " + tensor.name + " " +
                                                tensor.shape.to_string() +
                                                " has no use in the forward pass of family " + spec_.family +
                                                "; the config may belong to another model"};
    }
    return {};
  }

  void account(const MatrixSource& source) {
    plan_.file_bytes_ += source.file_size();
    plan_.staging_.cover(source);
  }

  void add_up() {
    for (const VectorJob& job : plan_.vectors_) {
      plan_.dense_bytes_ += platform::aligned_bytes(job.n * static_cast<int64_t>(sizeof(float)));
      plan_.file_bytes_ += job.tensor->bytes;
    }
    for (const MatrixJob& job : plan_.matrices_) {
      plan_.dense_bytes_ += platform::aligned_bytes(job.source.packed_size());
      account(job.source);
    }
    plan_.dense_file_bytes_ = plan_.file_bytes_;
    for (const ExpertSource& expert : plan_.experts_)
      for (const MatrixSource* source : {&expert.gate, &expert.up, &expert.down}) account(*source);
  }

  const ModelDescription& description_;
  const ModelSpec& spec_;
  const TensorNames& names_;
  const formats::TensorCatalog& catalog_;
  std::string prefix_ = "model.";
  int layer_ = 0;
  std::unordered_set<const TensorInfo*> used_;
  WeightPlan plan_;
};

Result<WeightPlan> WeightPlan::make(const ModelDescription& description, const formats::TensorCatalog& catalog) {
  return WeightPlanner(description, catalog).run();
}

int64_t WeightPlan::expert_bytes() const { return store::resident_store_bytes(experts_); }

Status read_vector(const formats::TensorCatalog& catalog, const VectorJob& job, float* out) {
  std::vector<std::byte> raw(static_cast<size_t>(job.tensor->bytes));
  COLIBRI_TRY(catalog.read(*job.tensor, 0, raw));
  std::vector<float> values(static_cast<size_t>(job.n));
  convert_to_f32(job.tensor->dtype, raw.data(), job.n, values.data());
  const int64_t head_dim = job.interleaved_heads > 0 ? job.n / job.interleaved_heads : 0;
  for (int64_t i = 0; i < job.n; ++i) {
    out[i] = values[static_cast<size_t>(head_dim > 0 ? store::interleaved_row(i, head_dim) : i)];
    if (std::isfinite(out[i])) continue;
    return Error{ErrorCode::kInvalidModel, catalog.files()[static_cast<size_t>(job.tensor->file)].path() + ": tensor " +
                                               job.tensor->name + " holds " +
                                               (std::isnan(out[i]) ? "NaN" : "infinity") + " at index " +
                                               std::to_string(i) + "; the file is damaged, fetch it again"};
  }
  return {};
}

Result<std::unique_ptr<ModelWeights>> WeightPlan::place_dense(platform::Arena& arena, std::vector<store::LoadJob>& jobs,
                                                              const store::LoadProgress& progress) {
  for (const VectorJob& job : vectors_) {
    auto* out = reinterpret_cast<float*>(arena.take(job.n * static_cast<int64_t>(sizeof(float))));
    COLIBRI_TRY(read_vector(*catalog_, job, out));
    *job.target = out;
    if (progress && !progress(job.tensor->bytes)) return Error{ErrorCode::kCancelled, "loading was interrupted"};
  }
  for (const MatrixJob& job : matrices_) {
    std::byte* data = arena.take(job.source.packed_size());
    jobs.push_back({job.source, data});
    *job.target = {job.source.encoding, job.source.n, job.source.k, data};
  }
  if (tied_head_) weights_->head = weights_->embed;
  return std::move(weights_);
}

}  // namespace colibri::model
