#include "model/weight_planner.h"

#include <algorithm>
#include <array>

#include "store/quantised_source.h"

namespace colibri::model {

using formats::TensorInfo;
using store::MatrixSource;

namespace {

std::string expand(std::string pattern, int layer, int part, int expert) {
  const auto replace = [&pattern](std::string_view mark, int value) {
    if (const size_t at = pattern.find(mark); at != std::string::npos)
      pattern.replace(at, mark.size(), std::to_string(value));
  };
  replace("{L}", layer);
  replace("{S}", part);
  replace("{E}", expert);
  return pattern;
}

// Tensors that files carry though nothing reads them.
bool ignorable(const TensorInfo& tensor, bool tied_head) {
  constexpr std::array<std::string_view, 6> kSuffixes = {
      "rotary_emb.inv_freq", "attn.masked_bias",         "attn.bias",
      "rope_freqs.weight",   "rope_factors_long.weight", "rope_factors_short.weight"};
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

// The same numbers in the same order: dimensions of 1 do not matter, and rows may be counted in several dimensions.
bool same_elements(const Shape& found, const Shape& expected) {
  std::vector<int64_t> left, right;
  for (const int64_t d : found)
    if (d != 1) left.push_back(d);
  for (const int64_t d : expected)
    if (d != 1) right.push_back(d);
  if (left == right) return true;
  return left.size() > 2 && right.size() == 2 && left.back() == right.back() && found.elements() == expected.elements();
}

// The layer's number in "PREFIX<number>.", or -1.
int layer_number(std::string_view tensor, std::string_view prefix) {
  if (!tensor.starts_with(prefix)) return -1;
  int number = -1;
  for (size_t i = prefix.size(); i < tensor.size() && tensor[i] >= '0' && tensor[i] <= '9' && number < 100000; ++i)
    number = std::max(number, 0) * 10 + (tensor[i] - '0');
  return number;
}

}  // namespace

std::string_view unused_part(std::string_view tensor, const ModelSpec& spec) {
  struct Part {
    std::string_view prefix, what;
  };
  static constexpr std::string_view kVision = "vision tower", kAudio = "audio tower",
                                    kPrediction = "multi-token prediction";
  static constexpr std::array kParts = {
      Part{"model.visual.", kVision},
      Part{"visual.", kVision},
      Part{"model.vision_tower.", kVision},
      Part{"vision_tower.", kVision},
      Part{"vision_model.", kVision},
      Part{"model.embed_vision.", kVision},
      Part{"multi_modal_projector.", kVision},
      Part{"model.multi_modal_projector.", kVision},
      Part{"mm_projector.", kVision},
      Part{"model.audio_tower.", kAudio},
      Part{"audio_tower.", kAudio},
      Part{"model.embed_audio.", kAudio},
      Part{"mtp.", kPrediction},
      Part{"model.mtp.", kPrediction},
  };
  for (const Part& part : kParts)
    if (tensor.starts_with(part.prefix)) return part.what;
  const int end = spec.layers.empty() ? 0 : spec.layers.back().number + 1;
  for (const std::string_view prefix : {"model.layers.", "model.language_model.layers.", "blk."})
    if (const int layer = layer_number(tensor, prefix); layer >= end && layer < end + spec.prediction_layers)
      return kPrediction;
  return {};
}

WeightPlanner::WeightPlanner(const ModelDescription& description, const formats::TensorCatalog& catalog)
    : description_(description), spec_(description.spec), names_(*description.names), catalog_(catalog) {
  plan_.catalog_ = &catalog;
  plan_.spec_ = &spec_;
  plan_.tied_head_ = spec_.tied_head;
  plan_.weights_ = std::make_unique<ModelWeights>();
  plan_.weights_->layers.resize(spec_.layers.size());
}

Result<WeightPlan> WeightPlanner::run() {
  find_prefix();
  ModelWeights& w = *plan_.weights_;
  COLIBRI_TRY(matrix(names_.embed, spec_.vocab_size, spec_.hidden_size, &w.embed));
  COLIBRI_TRY(norm(names_.final_norm, spec_.hidden_size, &w.final_norm));
  COLIBRI_TRY(streams(names_.final_streams, spec_.streams.n, 1, &w.final_streams));
  if (!spec_.tied_head) COLIBRI_TRY(matrix(names_.head, spec_.vocab_size, spec_.hidden_size, &w.head));
  COLIBRI_TRY(bias(spec_.head_bias, names_.head, spec_.vocab_size, &w.head_bias));
  for (layer_ = 0; layer_ < spec_.n_layers(); ++layer_) COLIBRI_TRY(layer());
  COLIBRI_TRY(refuse_leftovers());
  if (!description_.quantisation.schemes.empty() && !quantised_)
    return Error{ErrorCode::kInvalidModel, catalog_.files().front().path() + ": the config says " +
                                               description_.quantisation.describe() +
                                               ", but no weight is stored so; the config may belong to another file"};
  add_up();
  return std::move(plan_);
}

Status WeightPlanner::layer() {
  LayerWeights& w = plan_.weights_->layers[static_cast<size_t>(layer_)];
  const LayerSpec& layer = spec_.layers[static_cast<size_t>(layer_)];
  const int64_t hidden = spec_.hidden_size, n_weights = int64_t{2 + spec_.streams.n} * spec_.streams.n;
  COLIBRI_TRY(streams(names_.mixer_streams, n_weights, 3, &w.mixer_streams));
  COLIBRI_TRY(streams(names_.ffn_streams, n_weights, 3, &w.ffn_streams));
  if (layer.mixer != Mixer::kNone) {
    if (spec_.pre_norm) COLIBRI_TRY(norm(names_.attention_norm, hidden, &w.mixer_norm));
    if (spec_.post_norm) COLIBRI_TRY(norm(names_.attention_post_norm, hidden, &w.mixer_post_norm));
  }
  if (layer.mixer == Mixer::kAttention) COLIBRI_TRY(attention(spec_.attention_of(layer), w.attention));
  if (layer.mixer == Mixer::kDelta) COLIBRI_TRY(delta(w.delta));
  if (layer.mixer == Mixer::kMamba) COLIBRI_TRY(mamba(w.mamba));
  if (layer.mixer == Mixer::kShortConv) COLIBRI_TRY(short_conv(w.conv));
  if (layer.has_ffn()) {
    if (spec_.pre_norm) COLIBRI_TRY(norm(names_.ffn_norm, hidden, &w.ffn_norm));
    if (spec_.post_norm) COLIBRI_TRY(norm(names_.ffn_post_norm, hidden, &w.ffn_post_norm));
  }
  if (layer.dense_width > 0) COLIBRI_TRY(dense(layer.dense_width, &w.dense));
  if (layer.dense_width > 0 && layer.moe && spec_.moe.own_norms)
    COLIBRI_TRY(norm(names_.dense_post_norm, hidden, &w.dense_post_norm));
  if (layer.moe) COLIBRI_TRY(moe(layer, w.moe));
  return spec_.layer_scale ? vector(names_.layer_scale, 1, &w.scale) : Status{};
}

// Hugging Face saves of bare or wrapped models drop or extend the usual "model." in front.
void WeightPlanner::find_prefix() {
  for (const std::string_view prefix :
       {"model.", "", "model.language_model.", "language_model.model.", "language_model."}) {
    prefix_ = prefix;
    if (has(names_.embed)) return;
  }
  prefix_ = "model.";
}

std::string WeightPlanner::full_name(const char* pattern, int expert) const {
  const LayerSpec& layer = spec_.layers[static_cast<size_t>(std::min(layer_, spec_.n_layers() - 1))];
  std::string name = expand(pattern, layer.number, layer.part, expert);
  if (name.starts_with("model."))
    name.replace(0, 6, prefix_);
  else if (prefix_ == "language_model.model." && name == names_.head)
    name.insert(0, "language_model.");
  return name;
}

const TensorInfo* WeightPlanner::find(const char* pattern, int expert) const {
  return pattern != nullptr ? store::find_module(catalog_, full_name(pattern, expert)) : nullptr;
}

std::string WeightPlanner::file_of(const TensorInfo& tensor) const {
  return catalog_.files()[static_cast<size_t>(tensor.file)].path();
}

Error WeightPlanner::missing(const char* pattern, int expert) const {
  const std::string name = pattern != nullptr ? full_name(pattern, expert) : "(one without a name in this layout)";
  return {ErrorCode::kInvalidModel, catalog_.files().front().path() + ": tensor " + name + ".weight is missing (" +
                                        std::to_string(catalog_.tensors().size()) + " tensors in " +
                                        std::to_string(catalog_.files().size()) +
                                        " files); is a shard missing, or the config of another model?"};
}

Error WeightPlanner::wrong_shape(const TensorInfo& tensor, const Shape& expected) const {
  return {ErrorCode::kInvalidModel, file_of(tensor) + ": tensor " + tensor.name + " has shape " +
                                        tensor.shape.to_string() + ", the config of family " + spec_.family +
                                        " asks for " + expected.to_string()};
}

Status WeightPlanner::use(const TensorInfo& tensor, const Shape& expected) {
  if (!same_elements(tensor.shape, expected)) return wrong_shape(tensor, expected);
  if (!encoding_for(tensor.dtype))
    return Error{ErrorCode::kUnsupported, file_of(tensor) + ": tensor " + tensor.name + " is " +
                                              std::string(info(tensor.dtype).name) +
                                              ", which this version does not read; it reads" + types_read()};
  used_.insert(&tensor);
  return {};
}

// All of a module's weight, however it is stored, seen as rows of its last dimension.
Result<MatrixSource> WeightPlanner::source(const char* pattern, const Shape& expected, int expert) {
  const TensorInfo* tensor = find(pattern, expert);
  if (tensor == nullptr) return missing(pattern, expert);
  const Shape& shape = same_elements(tensor->shape, expected) ? tensor->shape : expected;
  COLIBRI_ASSIGN(const MatrixSource s,
                 store::find_matrix(catalog_, description_.quantisation, full_name(pattern, expert), shape));
  for (const TensorInfo* part : store::tensors_of(s)) used_.insert(part);
  quantised_ = quantised_ || s.codes.decoding != store::Decoding::kType;
  return s;
}

Status WeightPlanner::matrix(const char* pattern, int64_t n, int64_t k, PackedMatrix* target, const RowPart& part,
                             int heads) {
  COLIBRI_ASSIGN(const MatrixSource whole, source(pattern, Shape{part.rows > 0 ? part.rows : n, k}));
  MatrixSource s = part.rows > 0 ? store::select_rows(whole, part.first, n, part.block, part.stride) : whole;
  s.interleaved_heads = description_.interleaved_qk ? heads : 0;
  add(s, target);
  return {};
}

void WeightPlanner::add(const MatrixSource& s, PackedMatrix* target) { plan_.matrices_.push_back({s, target}); }

/// `job` says how the numbers become canonical; a tensor of which only a part is wanted has `job.n` numbers in all.
Status WeightPlanner::vector(const char* pattern, int64_t n, const float** target, VectorJob job) {
  const TensorInfo* tensor = find(pattern);
  if (tensor == nullptr) return missing(pattern);
  const int64_t all = job.n > 0 ? job.n : n;
  COLIBRI_TRY(use(*tensor, tensor->shape.elements() == all ? tensor->shape : Shape{all}));
  job.tensor = tensor;
  job.target = target;
  job.n = n;
  plan_.vectors_.push_back(job);
  return {};
}

/// NAME.bias of a projection, or NAME itself where that is the bias.
Status WeightPlanner::bias(bool wanted, const char* pattern, int64_t n, const float** target, VectorJob job) {
  if (!wanted) return {};
  const std::string name = std::string(pattern) + ".bias";
  if (find(name.c_str()) != nullptr) return vector(name.c_str(), n, target, job);
  const TensorInfo* itself = find(pattern);
  if (itself != nullptr && itself->shape.size() > 1 && itself->shape.elements() != std::max(n, job.n))
    return missing(name.c_str());
  return vector(pattern, n, target, job);
}

Status WeightPlanner::norm(const char* pattern, int64_t n, Norm* target) {
  COLIBRI_TRY(rms_weight(pattern, n, &target->weight));
  return bias(spec_.layer_norm, pattern, n, &target->bias);
}

Status WeightPlanner::streams(const char* pattern, int64_t n_weights, int64_t n_scales, StreamWeights* target) {
  if (spec_.streams.n == 0) return {};
  const std::string name(pattern);
  const int64_t inputs = int64_t{spec_.streams.n} * spec_.hidden_size;
  COLIBRI_TRY(matrix((name + "_fn").c_str(), n_weights, inputs, &target->logits));
  COLIBRI_TRY(vector((name + "_base").c_str(), n_weights, &target->base));
  return vector((name + "_scale").c_str(), n_scales, &target->scale);
}

Status WeightPlanner::rms_weight(const char* pattern, int64_t n, const float** target) {
  VectorJob job;
  if (spec_.norm_plus_one && !description_.folded_norms) job.change = VectorJob::Change::kPlusOne;
  return vector(pattern, n, target, job);
}

// Files have [channels, 1, kernel]; kernels read [kernel, channels].
Status WeightPlanner::convolution(const char* pattern, int64_t channels, int kernel, const float** target,
                                  int64_t first, int64_t all_channels) {
  VectorJob job;
  job.n = (all_channels > 0 ? all_channels : channels) * kernel;
  job.first = first * kernel;
  job.transposed_inner = kernel;
  return vector(pattern, channels * kernel, target, job);
}

// A tensor that nothing reads means that the file computes something which this spec does not.
Status WeightPlanner::refuse_leftovers() const {
  for (const TensorInfo& tensor : catalog_.tensors()) {
    if (used_.contains(&tensor) || ignorable(tensor, spec_.tied_head)) continue;
    if (!unused_part(tensor.name, spec_).empty()) continue;
    if (!description_.quantisation.schemes.empty() && store::beside_quantised(tensor.name)) continue;
    return Error{ErrorCode::kUnsupported, file_of(tensor) + ": tensor " + tensor.name + " " + tensor.shape.to_string() +
                                              " has no use in the forward pass of family " + spec_.family +
                                              "; the config may belong to another model"};
  }
  return {};
}

void WeightPlanner::account(const MatrixSource& s) {
  plan_.file_bytes_ += s.file_size();
  plan_.staging_.cover(s);
}

void WeightPlanner::add_up() {
  for (const VectorJob& job : plan_.vectors_) {
    plan_.dense_bytes_ += platform::aligned_bytes(job.n * static_cast<int64_t>(sizeof(float)));
    plan_.file_bytes_ += job.tensor->bytes;
  }
  for (const TableJob& job : plan_.tables_) {
    plan_.dense_bytes_ += platform::aligned_bytes(job.n * static_cast<int64_t>(sizeof(int32_t)));
    plan_.file_bytes_ += job.tensor->bytes;
  }
  for (const MatrixJob& job : plan_.matrices_) {
    plan_.dense_bytes_ += platform::aligned_bytes(job.source.packed_size());
    account(job.source);
  }
  plan_.dense_file_bytes_ = plan_.file_bytes_;
  for (const store::ExpertSource& expert : plan_.experts_)
    for (const MatrixSource* s : {&expert.gate, &expert.up, &expert.down})
      if (s->n > 0) account(*s);
}

}  // namespace colibri::model
