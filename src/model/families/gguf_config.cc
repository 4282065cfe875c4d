// GGUF metadata -> a Hugging Face config, so that each family has one reader.
//
// Only what llama.cpp's files say is translated; what they leave out (whether a layer has experts, whether the head is
// tied, biases) is read off the tensors that are there.
#include <array>

#include "model/families/family.h"

namespace colibri::model {
namespace {

struct Key {
  const char* gguf;  ///< after "{arch}."
  const char* config;
};

constexpr std::array kKeys = {
    Key{"embedding_length", "hidden_size"},
    Key{"block_count", "num_hidden_layers"},
    Key{"context_length", "max_position_embeddings"},
    Key{"attention.head_count", "num_attention_heads"},
    Key{"attention.head_count_kv", "num_key_value_heads"},
    Key{"attention.key_length", "head_dim"},
    Key{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    Key{"attention.clamp_kqv", "clip_qkv"},
    Key{"rope.freq_base", "rope_theta"},
    Key{"feed_forward_length", "intermediate_size"},
    Key{"expert_used_count", "num_experts_per_tok"},
    Key{"expert_feed_forward_length", "moe_intermediate_size"},
    Key{"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
    Key{"expert_weights_norm", "norm_topk_prob"},
    Key{"attention.sliding_window", "sliding_window"},
    Key{"final_logit_softcapping", "final_logit_softcapping"},
    Key{"attn_logit_softcapping", "attn_logit_softcapping"},
    Key{"logit_scale", "logit_scale"},
    Key{"residual_scale", "residual_multiplier"},
    Key{"embedding_scale", "embedding_multiplier"},
    Key{"attention.scale", "attention_multiplier"},
};

class Translator {
 public:
  Translator(const formats::TensorCatalog& catalog, std::string source)
      : catalog_(catalog), source_(std::move(source)), metadata_(catalog.metadata()) {}

  Result<Json> run() {
    const Json* architecture = metadata_.find_value("general.architecture");
    if (architecture == nullptr || !architecture->is_string())
      return Error{ErrorCode::kInvalidModel, source_ + ": the GGUF metadata has no general.architecture"};
    arch_ = architecture->as_string();
    const Json* experts = find("expert_count");
    const bool moe = experts != nullptr && experts->is_int() && experts->as_int() > 0;
    config_.set("model_type", std::string(model_type(moe)));
    for (const Key& key : kKeys)
      if (const Json* value = find(key.gguf)) config_.set(key.config, *value);
    if (moe) translate_experts(*experts);
    translate_tensors();
    COLIBRI_TRY(translate_rope());
    return std::move(config_);
  }

 private:
  const Json* find(std::string_view key) const { return metadata_.find_value(arch_ + "." + std::string(key)); }
  bool has(std::string_view tensor) const { return catalog_.find(tensor) != nullptr; }

  // Mixtral's files say "llama"; unknown architectures keep their name, so that the refusal names it.
  std::string_view model_type(bool moe) const {
    for (const Family* family : families()) {
      if (family->gguf_architecture != arch_) continue;
      if (arch_ == "llama" && moe != (family == &kMixtral)) continue;
      return family->name;
    }
    return arch_;
  }

  void translate_experts(const Json& count) {
    config_.set("num_experts", count);
    config_.set("num_local_experts", count);
    // Families before expert_weights_norm was written: llama.cpp fixes it by architecture.
    if (find("expert_weights_norm") == nullptr) config_.set("norm_topk_prob", arch_ == "qwen3moe" || arch_ == "llama");
    if (const Json* width = find("expert_feed_forward_length"); width != nullptr && arch_ == "olmoe")
      config_.set("intermediate_size", *width);
    if (const Json* scale = find("expert_weights_scale");
        scale != nullptr && scale->is_number() && scale->as_double() != 0.0 && scale->as_double() != 1.0)
      config_.set("routed_scaling_factor", *scale);
    if (const Json* gating = find("expert_gating_func"); gating != nullptr && *gating != Json(int64_t{1}))
      config_.set("expert_gating_func", *gating);
    Json::Array dense;
    const Json* layers = config_.find_value("num_hidden_layers");
    const int64_t n = layers != nullptr && layers->is_int() ? layers->as_int() : 0;
    for (int64_t l = 0; l < n && l < 4096; ++l)
      if (!has("blk." + std::to_string(l) + ".ffn_gate_inp.weight")) dense.emplace_back(l);
    config_.set("mlp_only_layers", std::move(dense));
  }

  void translate_tensors() {
    const formats::TensorInfo* embedding = catalog_.find("token_embd.weight");
    if (embedding != nullptr && embedding->shape.size() == 2) config_.set("vocab_size", embedding->shape[0]);
    config_.set("tie_word_embeddings", !has("output.weight"));
    config_.set("attention_bias", has("blk.0.attn_q.bias") && arch_ != "qwen2moe");
    const formats::TensorInfo* shared = catalog_.find("blk.0.ffn_gate_shexp.weight");
    for (int l = 1; shared == nullptr && l < 64; ++l)
      shared = catalog_.find("blk." + std::to_string(l) + ".ffn_gate_shexp.weight");
    if (shared != nullptr && shared->shape.size() == 2)
      config_.set("shared_expert_intermediate_size", shared->shape[0]);
  }

  Status translate_rope() {
    Json rope{Json::Object{}};
    if (const Json* type = find("rope.scaling.type");
        type != nullptr && type->is_string() && type->as_string() != "none") {
      rope.set("rope_type", *type);
      if (const Json* v = find("rope.scaling.factor")) rope.set("factor", *v);
      if (const Json* v = find("rope.scaling.original_context_length"))
        rope.set("original_max_position_embeddings", *v);
      if (const Json* v = find("rope.scaling.yarn_beta_fast")) rope.set("beta_fast", *v);
      if (const Json* v = find("rope.scaling.yarn_beta_slow")) rope.set("beta_slow", *v);
      config_.set("rope_scaling", std::move(rope));
    }
    if (const Json* dims = find("rope.dimension_count"); dims != nullptr && dims->is_int()) {
      const Json* head_dim = config_.find_value("head_dim");
      if (head_dim != nullptr && head_dim->is_int() && head_dim->as_int() != dims->as_int())
        config_.set("partial_rotary_factor",
                    static_cast<double>(dims->as_int()) / static_cast<double>(head_dim->as_int()));
    }
    return read_frequency_divisors();
  }

  Status read_frequency_divisors() {
    const formats::TensorInfo* tensor = catalog_.find("rope_freqs.weight");
    if (tensor == nullptr) return {};
    if (tensor->dtype != DType::kF32 || tensor->shape.size() != 1 || tensor->shape[0] > 65536)
      return Error{ErrorCode::kInvalidModel,
                   source_ + ": rope_freqs.weight is " + tensor->shape.to_string() + ", expected a short F32 vector"};
    std::vector<float> values(static_cast<size_t>(tensor->shape[0]));
    COLIBRI_TRY(catalog_.read(*tensor, 0, std::as_writable_bytes(std::span(values))));
    Json::Array divisors;
    for (const float v : values) {
      if (!(v > 0))
        return Error{ErrorCode::kInvalidModel, source_ + ": rope_freqs.weight holds a value that is not positive"};
      divisors.emplace_back(static_cast<double>(v));
    }
    config_.set("rope_frequency_divisors", std::move(divisors));
    return {};
  }

  const formats::TensorCatalog& catalog_;
  std::string source_;
  const Json& metadata_;
  std::string arch_;
  Json config_{Json::Object{}};
};

}  // namespace

Result<Json> config_from_gguf(const formats::TensorCatalog& catalog, const std::string& source) {
  return Translator(catalog, source).run();
}

}  // namespace colibri::model
