// GGUF metadata -> a Hugging Face config, so that each family has one reader.
//
// What llama.cpp's files say is translated under one name each (ConfigReader knows which other names families use for
// it); what they leave out (whether a layer has experts, whether the head is tied, biases) is read off the tensors that
// are there. What only one family has is translated in its own file.
#include <algorithm>
#include <array>

#include "model/families/family.h"

namespace colibri::model {

const Json* GgufFile::find(std::string_view key) const {
  return catalog.metadata().find_value(architecture + "." + std::string(key));
}

double GgufFile::number_or(std::string_view key, double fallback) const {
  const Json* value = find(key);
  return value != nullptr && value->is_number() ? value->as_double() : fallback;
}

double GgufFile::number_at(std::string_view key, int layer) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_array()) return number_or(key, 0);
  const auto& items = value->as_array();
  const auto at = static_cast<size_t>(layer);
  if (at >= items.size()) return 0;
  if (items[at].is_bool()) return items[at].as_bool() ? 1 : 0;
  return items[at].is_number() ? items[at].as_double() : 0;
}

int GgufFile::n_layers() const {
  const double n = number_or("block_count", 0) - number_or("nextn_predict_layers", 0);
  return n >= 1 && n <= 4096 ? static_cast<int>(n) : 0;
}

bool GgufFile::has(std::string_view tensor, int layer) const {
  return catalog.find("blk." + std::to_string(layer) + "." + std::string(tensor)) != nullptr;
}

void GgufFile::copy(std::string_view key, std::string_view name, Json& config) const {
  if (const Json* value = find(key)) config.set(std::string(name), *value);
}

Json GgufFile::layer_types(std::string_view key, std::string_view yes, std::string_view no) const {
  Json::Array types;
  for (int l = 0; l < n_layers(); ++l) types.emplace_back(number_at(key, l) != 0 ? yes : no);
  return types;
}

Result<Json> GgufFile::floats(std::string_view tensor) const {
  const formats::TensorInfo* info = catalog.find(tensor);
  if (info == nullptr) return Json();
  const std::string path = catalog.files()[static_cast<size_t>(info->file)].path();
  if (info->dtype != DType::kF32 || info->shape.size() != 1 || info->shape[0] > 65536)
    return Error{ErrorCode::kInvalidModel,
                 path + ": " + info->name + " is " + info->shape.to_string() + ", expected a short F32 vector"};
  std::vector<float> values(static_cast<size_t>(info->shape[0]));
  COLIBRI_TRY(catalog.read(*info, 0, std::as_writable_bytes(std::span(values))));
  Json::Array list;
  for (const float v : values) {
    if (!(v > 0))
      return Error{ErrorCode::kInvalidModel, path + ": " + info->name + " holds a value that is not positive"};
    list.emplace_back(static_cast<double>(v));
  }
  return Json(std::move(list));
}

namespace {

struct Key {
  const char* gguf;  ///< after "{arch}."
  const char* config;
};

constexpr std::array kKeys = {
    Key{"embedding_length", "hidden_size"},
    Key{"context_length", "max_position_embeddings"},
    Key{"attention.head_count", "num_attention_heads"},
    Key{"attention.layer_norm_epsilon", "rms_norm_eps"},
    Key{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    Key{"attention.clamp_kqv", "clip_qkv"},
    Key{"attention.q_lora_rank", "q_lora_rank"},
    Key{"attention.kv_lora_rank", "kv_lora_rank"},
    Key{"attention.sliding_window", "sliding_window"},
    Key{"attention.shared_kv_layers", "num_kv_shared_layers"},
    Key{"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
    Key{"rope.freq_base", "rope_theta"},
    Key{"expert_used_count", "num_experts_per_tok"},
    Key{"expert_feed_forward_length", "moe_intermediate_size"},
    Key{"expert_shared_count", "n_shared_experts"},
    Key{"expert_weights_norm", "norm_topk_prob"},
    Key{"expert_group_count", "n_group"},
    Key{"expert_group_used_count", "topk_group"},
    Key{"leading_dense_block_count", "first_k_dense_replace"},
    Key{"nextn_predict_layers", "num_nextn_predict_layers"},
    Key{"final_logit_softcapping", "final_logit_softcapping"},
    Key{"attn_logit_softcapping", "attn_logit_softcapping"},
    Key{"residual_scale", "residual_multiplier"},
    Key{"embedding_scale", "embedding_multiplier"},
    Key{"attention.scale", "attention_multiplier"},
};

class Translator {
 public:
  explicit Translator(const GgufFile& file) : file_(file), arch_(file.architecture) {}

  Result<Json> run() {
    const bool moe = file_.number_or("expert_count", 0) > 0;
    config_.set("gguf", true);
    for (const Key& key : kKeys) file_.copy(key.gguf, key.config, config_);
    config_.set("num_hidden_layers", int64_t{file_.n_layers()});
    translate_heads();
    translate_widths();
    if (moe) translate_experts();
    translate_tensors();
    COLIBRI_TRY(translate_rope());
    const Family* family = find_family(moe);
    config_.set("model_type", family != nullptr ? std::string(family->name) : arch_);
    if (family != nullptr && family->translate_gguf != nullptr) COLIBRI_TRY(family->translate_gguf(file_, config_));
    return std::move(config_);
  }

 private:
  // Some architectures hold several families; unknown ones keep their name, so that the refusal names it.
  const Family* find_family(bool moe) const {
    for (const Family* family : families()) {
      if (family->gguf_architecture != arch_) continue;
      if (arch_ == "llama" && moe != (family->name == "mixtral")) continue;
      if (arch_ == "deepseek2" && scores_by_sigmoid() != (family->name == "deepseek_v3")) continue;
      return family;
    }
    return nullptr;
  }

  // llama.cpp: files without the key are softmax, but for those of GLM-4.7-Flash (47 layers, 48 with the predictor).
  bool scores_by_sigmoid() const {
    const double gating = file_.number_or("expert_gating_func", 0), blocks = file_.number_or("block_count", 0);
    return gating == 2 || (gating == 0 && (blocks == 47 || blocks == 48));
  }

  // An entry per layer means that some layers have none, or heads of another size.
  void translate_heads() {
    double kv_heads = file_.number_or("attention.head_count_kv", 0);
    for (int l = 0; l < file_.n_layers() && kv_heads == 0; ++l)
      kv_heads = file_.number_at("attention.head_count_kv", l);
    if (kv_heads > 0) config_.set("num_key_value_heads", static_cast<int64_t>(kv_heads));
    const double rope = file_.number_or("rope.dimension_count", 0);
    if (const double head = file_.number_or("attention.key_length_mla", 0); head > 0) {
      config_.set("qk_nope_head_dim", static_cast<int64_t>(head - rope));
      config_.set("qk_rope_head_dim", static_cast<int64_t>(rope));
      config_.set("v_head_dim", static_cast<int64_t>(file_.number_or("attention.value_length_mla", 0)));
      return;
    }
    file_.copy("attention.key_length", "head_dim", config_);
    const double key = file_.number_or("attention.key_length", 0),
                 value = file_.number_or("attention.value_length", key);
    if (value != key) config_.set("v_head_dim", static_cast<int64_t>(value));
    const double heads = file_.number_or("attention.head_count", 0);
    const double head = key > 0 ? key : heads > 0 ? file_.number_or("embedding_length", 0) / heads : 0;
    if (rope > 0 && head > 0 && rope != head) config_.set("partial_rotary_factor", rope / head);
  }

  // The largest entry: layers without a dense MLP have 0 or the experts' width.
  void translate_widths() {
    double width = 0;
    for (int l = 0; l < file_.n_layers(); ++l) width = std::max(width, file_.number_at("feed_forward_length", l));
    if (width > 0) config_.set("intermediate_size", static_cast<int64_t>(width));
  }

  void translate_experts() {
    file_.copy("expert_count", "num_experts", config_);
    // Files from before the key was written: llama.cpp fixes it by architecture.
    if (arch_ == "qwen3moe" && file_.find("expert_weights_norm") == nullptr) config_.set("norm_topk_prob", true);
    if (const Json* width = file_.find("expert_feed_forward_length"); width != nullptr && arch_ == "olmoe")
      config_.set("intermediate_size", *width);
    const double scale = file_.number_or("expert_weights_scale", 0);
    if (scale != 0.0 && scale != 1.0) config_.set("routed_scaling_factor", scale);
    if (const double gating = file_.number_or("expert_gating_func", 0); gating == 1 || gating == 2)
      config_.set("scoring_func", gating == 1 ? "softmax" : "sigmoid");
    else if (gating != 0)
      config_.set("expert_gating_func", gating);
    Json::Array dense;
    for (int l = 0; l < file_.n_layers(); ++l)
      if (!file_.has("ffn_gate_inp.weight", l)) dense.emplace_back(int64_t{l});
    config_.set("mlp_only_layers", std::move(dense));
  }

  void translate_tensors() {
    const formats::TensorInfo* embedding = file_.catalog.find("token_embd.weight");
    if (embedding != nullptr && embedding->shape.size() == 2) config_.set("vocab_size", embedding->shape[0]);
    config_.set("tie_word_embeddings", file_.catalog.find("output.weight") == nullptr);
    const auto any_layer = [this](std::string_view tensor) {
      for (int l = 0; l < file_.n_layers(); ++l)
        if (file_.has(tensor, l)) return l;
      return -1;
    };
    if (any_layer("attn_q.bias") >= 0) config_.set("attention_bias", true);
    const int shared = any_layer("ffn_up_shexp.weight");
    if (shared < 0) return;
    const formats::TensorInfo* up = file_.catalog.find("blk." + std::to_string(shared) + ".ffn_up_shexp.weight");
    if (up->shape.size() == 2) config_.set("shared_expert_intermediate_size", up->shape[0]);
  }

  Status translate_rope() {
    Json rope{Json::Object{}};
    if (const Json* type = file_.find("rope.scaling.type");
        type != nullptr && type->is_string() && type->as_string() != "none") {
      rope.set("rope_type", *type);
      file_.copy("rope.scaling.factor", "factor", rope);
      file_.copy("rope.scaling.original_context_length", "original_max_position_embeddings", rope);
      file_.copy("rope.scaling.yarn_beta_fast", "beta_fast", rope);
      file_.copy("rope.scaling.yarn_beta_slow", "beta_slow", rope);
      if (const double m = file_.number_or("rope.scaling.yarn_log_multiplier", 0); m > 0) {  // 0.1 * mscale_all_dim
        rope.set("mscale", 10 * m);
        rope.set("mscale_all_dim", 10 * m);
      }
    }
    COLIBRI_ASSIGN(Json divisors, file_.floats("rope_freqs.weight"));
    if (!divisors.is_null()) rope.set("frequency_divisors", std::move(divisors));
    if (!rope.as_object().empty()) config_.set("rope_scaling", std::move(rope));
    return {};
  }

  const GgufFile& file_;
  std::string arch_;
  Json config_{Json::Object{}};
};

}  // namespace

Result<Json> config_from_gguf(const formats::TensorCatalog& catalog, const std::string& source) {
  const Json* architecture = catalog.metadata().find_value("general.architecture");
  if (architecture == nullptr || !architecture->is_string())
    return Error{ErrorCode::kInvalidModel, source + ": the GGUF metadata has no general.architecture"};
  return Translator({catalog, architecture->as_string()}).run();
}

}  // namespace colibri::model
