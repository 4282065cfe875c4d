#include "model/families/config.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace colibri::model {
namespace {

// Settings that change the forward pass of some model. Whoever has no code for one must see its neutral value.
struct Neutral {
  const char* key;
  Json value;
};

const std::vector<Neutral>& neutral_settings() {
  static const std::vector<Neutral> kSettings = {
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"qkv_bias", false},
      {"mlp_bias", false},
      {"clip_qkv", nullptr},
      {"use_sliding_window", false},
      {"partial_rotary_factor", 1},
      {"rotary_pct", 1},
      {"final_logit_softcapping", nullptr},
      {"attn_logit_softcapping", nullptr},
      {"embedding_multiplier", 1},
      {"residual_multiplier", 1},
      {"logits_scaling", 1},
      {"logit_scale", 1},
      {"attention_multiplier", nullptr},
      {"attention_chunk_size", nullptr},
      {"no_rope_layers", nullptr},
      {"n_shared_experts", 0},
      {"shared_expert_intermediate_size", 0},
      {"num_shared_experts", 0},
      {"routed_scaling_factor", 1},
      {"route_scale", 1},
      {"expert_gating_func", 1},
      {"scoring_func", "softmax"},
      {"n_group", 1},
      {"num_expert_group", 1},
      {"topk_group", 1},
      {"q_lora_rank", nullptr},
      {"kv_lora_rank", nullptr},
      {"index_topk", nullptr},
      {"attn_temperature_tuning", false},
      {"attention_value_scale", nullptr},
      {"v_head_dim", nullptr},
      {"rotary_dim", nullptr},
      {"num_kv_shared_layers", 0},
      {"hidden_size_per_layer_input", 0},
      {"zero_expert_num", 0},
      {"swiglu_limit", nullptr},
      {"hc_mult", nullptr},
      {"moe_latent_size", nullptr},
      {"linear_num_value_heads", nullptr},
      {"use_qk_norm", false},
      {"qk_layernorm", false},
      {"sliding_window_pattern", nullptr},
  };
  return kSettings;
}

// Names that families have for what the translation of GGUF metadata writes under one.
struct Synonym {
  std::string_view key, written;
};

constexpr std::array kSynonyms = {
    Synonym{"num_local_experts", "num_experts"},
    Synonym{"n_routed_experts", "num_experts"},
    Synonym{"moe_num_experts", "num_experts"},
    Synonym{"num_experts_per_token", "num_experts_per_tok"},
    Synonym{"moe_k", "num_experts_per_tok"},
    Synonym{"moe_topk", "num_experts_per_tok"},
    Synonym{"top_k_experts", "num_experts_per_tok"},
    Synonym{"num_shared_experts", "n_shared_experts"},
    Synonym{"moe_num_shared_experts", "n_shared_experts"},
    Synonym{"shared_intermediate_size", "shared_expert_intermediate_size"},
    Synonym{"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    Synonym{"route_scale", "routed_scaling_factor"},
    Synonym{"route_norm", "norm_topk_prob"},
    Synonym{"moe_renormalize", "norm_topk_prob"},
    Synonym{"num_expert_group", "n_group"},
    Synonym{"score_func", "scoring_func"},
    Synonym{"moe_router_activation_func", "scoring_func"},
    Synonym{"num_dense_layers", "first_k_dense_replace"},
    Synonym{"moe_layer_start_index", "first_k_dense_replace"},
    Synonym{"norm_eps", "rms_norm_eps"},
    Synonym{"layer_norm_epsilon", "rms_norm_eps"},
    Synonym{"layernorm_epsilon", "rms_norm_eps"},
};

bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  return a == b;
}

bool is_off(const Json& value) { return value.is_null() || (value.is_bool() && !value.as_bool()); }

}  // namespace

void ConfigReader::record(ErrorCode code, std::string_view key, const std::string& what) {
  if (!error_) error_ = Error{code, source_ + ": \"" + std::string(key) + "\" " + what};
}

void ConfigReader::fail(std::string_view key, const std::string& what) { record(ErrorCode::kInvalidModel, key, what); }

void ConfigReader::fail_unsupported(std::string_view key, const std::string& what) {
  record(ErrorCode::kUnsupported, key, what);
}

const Json* ConfigReader::find(std::string_view key) {
  read_.emplace(key);
  if (from_gguf())
    for (const Synonym& synonym : kSynonyms)
      if (synonym.key == key && config_.find_value(key) == nullptr) return find(synonym.written);
  return config_.find_value(key);
}

double ConfigReader::number(std::string_view key, const Json& value, double low, double high) {
  if (!value.is_number()) {
    fail(key, "is " + value.dump() + ", expected a number");
    return low;
  }
  const double d = value.as_double();
  if (!(d >= low && d <= high)) {
    fail(key, "is " + value.dump() + ", expected " + Json(low).dump() + " to " + Json(high).dump());
    return low;
  }
  return d;
}

int ConfigReader::size(std::string_view key, int64_t max) {
  const Json* value = find(key);
  if (value == nullptr) {
    fail(key, "is missing");
    return 1;
  }
  const double d = number(key, *value, 1, static_cast<double>(max));
  if (d != std::floor(d)) fail(key, "is " + value->dump() + ", expected a whole number");
  return static_cast<int>(d);
}

int ConfigReader::size_or(std::string_view key, int fallback, int64_t max) {
  return find(key) == nullptr ? fallback : size(key, max);
}

int ConfigReader::size_at(std::string_view key, int layer, int64_t max) {
  const Json* value = find(key);
  if (value == nullptr || !value->is_array()) return size(key, max);
  const auto& items = value->as_array();
  if (static_cast<size_t>(layer) >= items.size()) {
    fail(key, "has " + std::to_string(items.size()) + " entries, too few for layer " + std::to_string(layer));
    return 1;
  }
  const double d = number(key, items[static_cast<size_t>(layer)], 1, static_cast<double>(max));
  if (d != std::floor(d)) fail(key, "holds " + items[static_cast<size_t>(layer)].dump() + ", expected whole numbers");
  return static_cast<int>(d);
}

int ConfigReader::count_or(std::string_view key, int fallback) {
  const Json* value = find(key);
  if (value != nullptr && value->is_int() && value->as_int() == 0) return 0;
  return size_or(key, fallback);
}

double ConfigReader::positive(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) {
    fail(key, "is missing");
    return 1;
  }
  return number(key, *value, 1e-30, 1e30);
}

double ConfigReader::positive_or(std::string_view key, double fallback) {
  return find(key) == nullptr ? fallback : positive(key);
}

double ConfigReader::number_or(std::string_view key, double fallback) {
  const Json* value = find(key);
  return value == nullptr ? fallback : number(key, *value, -1e30, 1e30);
}

bool ConfigReader::flag_at_or(std::string_view key, int layer, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_array() || static_cast<size_t>(layer) >= value->as_array().size()) {
    fail(key, "must be a list with an entry for each layer");
    return fallback;
  }
  const Json& item = value->as_array()[static_cast<size_t>(layer)];
  if (item.is_bool()) return item.as_bool();
  return number(key, item, 0, 1) != 0;
}

// transformers 5 writes {"__float__": "Infinity"}, others the bare word.
double ConfigReader::limit(const Json& value, std::string_view key) {
  const Json* text = value.is_object() ? value.find_value("__float__") : nullptr;
  if (text != nullptr && *text == Json("Infinity")) return HUGE_VAL;
  if (value.is_number() && value.as_double() == HUGE_VAL) return HUGE_VAL;
  return number(key, value, 0, 1e30);
}

bool ConfigReader::flag_or(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_bool()) return value->as_bool();
  fail(key, "is " + value->dump() + ", expected true or false");
  return fallback;
}

std::string ConfigReader::text_or(std::string_view key, std::string_view fallback) {
  const Json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->as_string();
  fail(key, "is " + value->dump() + ", expected a string");
  return std::string(fallback);
}

std::vector<int> ConfigReader::layers_or_empty(std::string_view key, int n_layers) {
  std::vector<int> layers;
  const Json* value = find(key);
  if (value == nullptr) return layers;
  if (!value->is_array()) {
    fail(key, "is " + value->dump() + ", expected a list of layer numbers");
    return layers;
  }
  for (const Json& item : value->as_array()) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() >= n_layers) {
      fail(key, "names layer " + item.dump() + ", but there are " + std::to_string(n_layers) + " layers");
      return layers;
    }
    layers.push_back(static_cast<int>(item.as_int()));
  }
  return layers;
}

void ConfigReader::require_value(std::string_view key, const Json& expected) {
  const Json* value = find(key);
  if (value == nullptr || same(*value, expected)) return;
  fail_unsupported(
      key, "is " + value->dump().substr(0, 120) + "; this family is computed with " + expected.dump() + " only");
}

void ConfigReader::require_neutral(std::string_view key, const Json& neutral) {
  const Json* value = config_.find(key);
  if (value == nullptr || is_off(*value) || same(*value, neutral)) return;
  fail_unsupported(key, "is " + value->dump().substr(0, 120) + ", which this version cannot compute for this family");
}

Result<ModelSpec> ConfigReader::finish(ModelSpec spec) {
  for (const Neutral& neutral : neutral_settings())
    if (!read_.contains(neutral.key)) require_neutral(neutral.key, neutral.value);
  if (!read_.contains("layer_types")) require_layer_types(*this, spec, "full_attention");
  if (error_) return *error_;
  return spec;
}

}  // namespace colibri::model
