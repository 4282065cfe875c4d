// GGUF metadata -> a Hugging Face config, so that each family has one reader.
//
// What llama.cpp's files say is translated under one name each (ConfigReader knows which other names families use for
// it); what they leave out (whether a layer has experts, whether the head is tied, biases) is read off the tensors that
// are there. What only one family has is translated in its own file.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "model/families/family.h"

namespace colibri::model {

const Json* GgufFile::find(std::string_view key) const {
  read.emplace(key);
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

Error GgufFile::wrong(std::string_view key, const std::string& what) const {
  const Json* value = find(key);
  return {ErrorCode::kInvalidModel, source + ": \"" + architecture + "." + std::string(key) + "\" is " +
                                        (value != nullptr ? value->dump().substr(0, 120) + ", " : "") + what};
}

void GgufFile::copy(std::string_view key, std::string_view name, Json& config) const {
  if (const Json* value = find(key)) config.set(std::string(name), *value);
}

void GgufFile::copy_windows(std::string_view interval_key, Json& config) const {
  const Json* pattern = find("attention.sliding_window_pattern");
  if (pattern == nullptr) return;
  if (pattern->is_array())
    config.set("layer_types", layer_types("attention.sliding_window_pattern", "sliding_attention", "full_attention"));
  else
    config.set(std::string(interval_key), *pattern);
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

constexpr auto kKeys = std::to_array<Key>({
    Key{"embedding_length", "hidden_size"},
    Key{"context_length", "max_position_embeddings"},
    Key{"attention.head_count", "num_attention_heads"},
    Key{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    Key{"attention.layer_norm_epsilon", "rms_norm_eps"},
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
});

// Where keys come from that are not copied as they are: for messages.
constexpr auto kOrigins = std::to_array<Key>({
    {"block_count", "num_hidden_layers"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.head_count_kv", "num_global_key_value_heads"},
    {"attention.head_count_kv", "swa_num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.key_length", "global_head_dim"},
    {"attention.key_length", "query_pre_attn_scalar"},
    {"attention.value_length", "v_head_dim"},
    {"attention.key_length_mla", "qk_nope_head_dim"},
    {"rope.dimension_count", "qk_rope_head_dim"},
    {"rope.dimension_count", "partial_rotary_factor"},
    {"rope.freq_base_swa", "rope_local_base_freq"},
    {"rope.freq_base_swa", "swa_rope_theta"},
    {"rope.scaling.type", "rope_scaling"},
    {"rope.freq_base", "rope_parameters"},
    {"feed_forward_length", "intermediate_size"},
    {"feed_forward_length", "intermediate_size_mlp"},
    {"expert_count", "num_experts"},
    {"expert_weights_scale", "routed_scaling_factor"},
    {"expert_gating_func", "scoring_func"},
    {"expert_gating_func", "expert_gating_func"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    {"expert_shared_feed_forward_length", "num_shared_expert"},
    {"attention.causal", "is_causal"},
    {"attention.chunk_size", "attention_chunk_size"},
    {"attention.value_scale", "attention_value_scale"},
    {"attention.sliding_window", "sliding_window_size"},
    {"ssm.group_count", "linear_num_key_heads"},
    {"ssm.time_step_rank", "linear_num_value_heads"},
    {"ssm.state_size", "linear_key_head_dim"},
    {"ssm.inner_size", "linear_value_head_dim"},
    {"ssm.conv_kernel", "linear_conv_kernel_dim"},
    {"ssm.time_step_rank", "mamba_num_heads"},
    {"ssm.time_step_rank", "mamba_n_heads"},
    {"ssm.group_count", "n_groups"},
    {"ssm.group_count", "mamba_n_groups"},
    {"ssm.state_size", "ssm_state_size"},
    {"ssm.state_size", "mamba_d_state"},
    {"ssm.conv_kernel", "conv_kernel"},
    {"ssm.conv_kernel", "mamba_d_conv"},
    {"ssm.inner_size", "mamba_head_dim"},
    {"ssm.inner_size", "mamba_d_head"},
    {"kda.head_dim", "linear_attn_config"},
    {"shortconv.l_cache", "conv_L_cache"},
    {"full_attention_interval", "full_attention_interval"},
    {"interleave_moe_layer_step", "moe_layer_interval"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"logit_scale", "logits_scaling"},
});

// Metadata of an architecture that nothing depends on, or that says what the tensors say: tensors of another size than
// these give are refused anyway.
constexpr auto kUnusedKeys = std::to_array<std::string_view>(
    {"vocab_size", "rope.scaling.finetuned", "rope.dimension_sections", "tensor_data_layout", "pooling_type",
     "expert_shared_feed_forward_length", "expert_chunk_feed_forward_length", "attention.value_length",
     "attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa", "rope.freq_base_swa",
     "leading_dense_block_count", "ssm.dt_b_c_rms", "n_deepstack_layers"});

// Those with an entry for each layer, where they are lists.
constexpr auto kPerLayer =
    std::to_array<std::string_view>({"attention.head_count", "attention.head_count_kv", "feed_forward_length",
                                     "attention.sliding_window_pattern", "attention.recurrent_layers"});

class Translator {
 public:
  explicit Translator(const GgufFile& file) : file_(file), arch_(file.architecture) {}

  Result<Json> run() {
    COLIBRI_TRY(check_layers());
    const bool moe = file_.number_or("expert_count", 0) > 0;
    config_.set("gguf", arch_);
    for (const Key& key : kKeys) file_.copy(key.gguf, key.config, config_);
    config_.set("num_hidden_layers", int64_t{file_.n_layers()});
    COLIBRI_TRY(translate_heads());
    translate_widths();
    if (moe) translate_experts();
    translate_tensors();
    COLIBRI_TRY(translate_rope());
    const Family* family = find_family(moe);
    config_.set("model_type", family != nullptr ? std::string(family->name) : arch_);
    if (family == nullptr) return std::move(config_);
    if (family->translate_gguf != nullptr) COLIBRI_TRY(family->translate_gguf(file_, config_));
    COLIBRI_TRY(check_unread());
    return std::move(config_);
  }

 private:
  Status check_layers() const {
    const Json* count = file_.find("block_count");
    if (count == nullptr) return file_.wrong("block_count", "missing");
    const double further = file_.number_or("nextn_predict_layers", 0);
    if (!count->is_int() || count->as_int() < 1 || count->as_int() > 4096 || further < 0 ||
        further != std::floor(further))
      return file_.wrong("block_count", "expected 1 to 4096 layers");
    if (further >= static_cast<double>(count->as_int()))
      return file_.wrong("nextn_predict_layers", "expected fewer than the layers in block_count");
    COLIBRI_TRY(check_prediction_layers(static_cast<int>(count->as_int())));
    for (const std::string_view key : kPerLayer) {
      const Json* list = file_.catalog.metadata().find_value(arch_ + "." + std::string(key));
      if (list != nullptr && list->is_array() && list->as_array().size() != static_cast<size_t>(count->as_int()))
        return file_.wrong(key, "expected an entry for each of the " + count->dump() + " layers");
    }
    return {};
  }

  // Layers that are there must be what nextn_predict_layers says they are, or the last ones of the model would be lost.
  Status check_prediction_layers(int n_blocks) const {
    std::vector<bool> there(static_cast<size_t>(n_blocks), false), marked = there;
    for (const formats::TensorInfo& tensor : file_.catalog.tensors()) {
      size_t layer = 0, at = 4;
      if (!tensor.name.starts_with("blk.")) continue;
      for (; at < std::min<size_t>(tensor.name.size(), 9) && std::isdigit(static_cast<unsigned char>(tensor.name[at]));
           ++at)
        layer = 10 * layer + static_cast<size_t>(tensor.name[at] - '0');
      if (layer >= there.size()) continue;
      there[layer] = true;
      if (tensor.name.compare(at, 7, ".nextn.") == 0) marked[layer] = true;
    }
    for (size_t l = static_cast<size_t>(file_.n_layers()); l < there.size(); ++l)
      if (there[l] && !marked[l])
        return file_.wrong("nextn_predict_layers",
                           "but layer " + std::to_string(l) + " has no nextn.* tensors: it is a layer like the others");
    return {};
  }

  // llama.cpp would act on these; what it does not know it would not either, but then nobody does.
  Status check_unread() const {
    const std::string prefix = arch_ + ".";
    for (const auto& [name, value] : file_.catalog.metadata().as_object()) {
      if (!name.starts_with(prefix)) continue;
      const std::string key = name.substr(prefix.size());
      if (file_.read.contains(key) || is_off(value) ||
          std::find(kUnusedKeys.begin(), kUnusedKeys.end(), key) != kUnusedKeys.end())
        continue;
      Error error = file_.wrong(key, "a setting that this version does not know for this architecture");
      return Error{ErrorCode::kUnsupported, error.message + ", so the answers could be others"};
    }
    return {};
  }

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
  Status translate_heads() {
    double kv_heads = file_.number_or("attention.head_count_kv", 0);
    const bool by_kind = arch_ == "gemma4" || arch_ == "mimo2";  // with a window or without
    for (int l = 0; l < file_.n_layers(); ++l) {
      const double own = file_.number_at("attention.head_count_kv", l);
      if (kv_heads == 0) kv_heads = own;
      if (own != 0 && own != kv_heads && !by_kind)
        return file_.wrong("attention.head_count_kv", "expected one number of heads for all layers that have any");
    }
    if (kv_heads > 0) config_.set("num_key_value_heads", whole_number(kv_heads));
    const double rope = file_.number_or("rope.dimension_count", 0);
    if (const double head = file_.number_or("attention.key_length_mla", 0); head > 0) {
      config_.set("qk_nope_head_dim", whole_number(head - rope));
      config_.set("qk_rope_head_dim", whole_number(rope));
      config_.set("v_head_dim", whole_number(file_.number_or("attention.value_length_mla", 0)));
      const double latent = file_.number_or("attention.kv_lora_rank", 0);
      if (file_.number_or("attention.key_length", latent + rope) != latent + rope)
        return file_.wrong("attention.key_length", "expected attention.kv_lora_rank and rope.dimension_count together");
      if (arch_ == "deepseek2" && file_.number_or("attention.value_length", latent) != latent)
        return file_.wrong("attention.value_length", "expected attention.kv_lora_rank");
      return {};
    }
    file_.copy("attention.key_length", "head_dim", config_);
    const double key = file_.number_or("attention.key_length", 0),
                 value = file_.number_or("attention.value_length", key);
    if (value != key) config_.set("v_head_dim", whole_number(value));
    const double heads = file_.number_or("attention.head_count", 0);
    const double head = key > 0 ? key : heads > 0 ? file_.number_or("embedding_length", 0) / heads : 0;
    if (rope > 0 && head > 0 && rope != head) config_.set("partial_rotary_factor", rope / head);
    return {};
  }

  // The largest entry: layers without a dense MLP have 0 or the experts' width.
  void translate_widths() {
    double width = 0;
    for (int l = 0; l < file_.n_layers(); ++l) width = std::max(width, file_.number_at("feed_forward_length", l));
    if (width > 0) config_.set("intermediate_size", whole_number(width));
  }

  void translate_experts() {
    file_.copy("expert_count", "num_experts", config_);
    // Without the key llama.cpp goes by architecture.
    if (file_.find("expert_weights_norm") == nullptr) {
      if (arch_ == "qwen3moe") config_.set("norm_topk_prob", true);
      for (const char* arch : {"deepseek2", "dots1", "glm4moe", "afmoe"})
        if (arch_ == arch) config_.set("norm_topk_prob", false);
    }
    if (const Json* width = file_.find("expert_feed_forward_length"); width != nullptr && arch_ == "olmoe")
      config_.set("intermediate_size", *width);
    const double scale = file_.number_or("expert_weights_scale", 0);
    if (scale != 0.0 && scale != 1.0) config_.set("routed_scaling_factor", scale);
    if (const double gating = file_.number_or("expert_gating_func", 0); gating == 1 || gating == 2)
      config_.set("scoring_func", gating == 1 ? "softmax" : "sigmoid");
    else if (gating != 0)
      config_.set("expert_gating_func", gating);
    if (!arch_.starts_with("qwen")) return;  // the others count the dense layers, or have none
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
    if (const Json* causal = file_.find("attention.causal")) config_.set("is_causal", *causal);
    const int shared = any_layer("ffn_up_shexp.weight");
    if (shared < 0) return;
    const formats::TensorInfo* up = file_.catalog.find("blk." + std::to_string(shared) + ".ffn_up_shexp.weight");
    if (up->shape.size() == 2) config_.set("shared_expert_intermediate_size", up->shape[0]);
  }

  Status translate_rope() {
    Json rope{Json::Object{}};
    const double factor = file_.number_or("rope.scaling.factor", file_.number_or("rope.scale_linear", 0));
    const Json linear("linear");  // what llama.cpp takes a factor without a type for
    const Json* type = file_.find("rope.scaling.type");
    if (type == nullptr && factor != 0 && factor != 1) type = &linear;
    if (type != nullptr && *type != Json("none")) {
      rope.set("rope_type", *type);
      if (factor != 0) rope.set("factor", factor);
      file_.copy("rope.scaling.original_context_length", "original_max_position_embeddings", rope);
      file_.copy("rope.scaling.yarn_beta_fast", "beta_fast", rope);
      file_.copy("rope.scaling.yarn_beta_slow", "beta_slow", rope);
      if (const double m = file_.number_or("rope.scaling.yarn_log_multiplier", 0); m > 0) {  // 0.1 * mscale_all_dim
        rope.set("mscale", 10 * m);
        rope.set("mscale_all_dim", 10 * m);
      }
      if (const double mix = file_.number_or("rope.scaling.yarn_ext_factor", -1); mix >= 0 && mix != 1)
        return file_.wrong("rope.scaling.yarn_ext_factor", "expected 1: all of YaRN's frequencies");
    }
    const double magnitude =
        file_.number_or("rope.scaling.attn_factor", 1) * file_.number_or("rope.scaling.yarn_attn_factor", 1);
    if (magnitude != 1) rope.set("magnitude", magnitude);
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

std::string gguf_key_of(const std::string& architecture, std::string_view key) {
  if (key == "vocab_size") return "token_embd.weight";
  for (const auto& keys : {std::span<const Key>(kKeys), std::span<const Key>(kOrigins)})
    for (const Key& found : keys)
      if (key == found.config) return architecture + "." + found.gguf;
  return std::string(key);
}

Result<Json> config_from_gguf(const formats::TensorCatalog& catalog, const std::string& source) {
  const Json* architecture = catalog.metadata().find_value("general.architecture");
  if (architecture == nullptr || !architecture->is_string())
    return Error{ErrorCode::kInvalidModel, source + ": the GGUF metadata has no general.architecture"};
  return Translator({catalog, architecture->as_string(), source}).run();
}

}  // namespace colibri::model
