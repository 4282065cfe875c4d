#include "model/families/config.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

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
      {"routed_scaling_factor", 1},
      {"expert_gating_func", 1},
  };
  return kSettings;
}

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

void ConfigReader::require_neutral(std::string_view key, const Json& neutral) {
  const Json* value = config_.find(key);
  if (value == nullptr || is_off(*value) || same(*value, neutral)) return;
  fail_unsupported(key, "is " + value->dump().substr(0, 120) + ", which this version cannot compute for this family");
}

Result<ModelSpec> ConfigReader::finish(ModelSpec spec) {
  for (const Neutral& neutral : neutral_settings())
    if (!read_.contains(neutral.key)) require_neutral(neutral.key, neutral.value);
  if (error_) return *error_;
  return spec;
}

namespace {

void read_layer_types(ConfigReader& reader) {
  const Json* types = reader.find("layer_types");
  if (types == nullptr || !types->is_array()) return;
  for (const Json& type : types->as_array())
    if (type != Json("full_attention"))
      reader.fail_unsupported("layer_types",
                              "holds " + type.dump() + "; this family is computed with full_attention only");
}

}  // namespace

ModelSpec read_common(ConfigReader& reader, std::string_view family) {
  ModelSpec spec;
  spec.family = family;
  spec.vocab_size = reader.size("vocab_size", 1 << 24);
  spec.hidden_size = reader.size("hidden_size", 1 << 20);
  spec.context = reader.size("max_position_embeddings");
  spec.norm_eps = static_cast<float>(reader.positive_or("rms_norm_eps", 1e-6));
  spec.tied_head = reader.flag_or("tie_word_embeddings", false);
  const int n_layers = reader.size("num_hidden_layers", 4096);
  spec.layers.assign(static_cast<size_t>(n_layers), LayerSpec{});

  AttentionSpec& attention = spec.attention;
  attention.n_heads = reader.size("num_attention_heads", 4096);
  attention.n_kv_heads = reader.size_or("num_key_value_heads", attention.n_heads, 4096);
  if (reader.find("head_dim") == nullptr && spec.hidden_size % attention.n_heads != 0)
    reader.fail("head_dim", "is missing and hidden_size is no multiple of num_attention_heads");
  attention.head_dim = reader.size_or("head_dim", std::max(1, spec.hidden_size / attention.n_heads), 4096);
  if (attention.n_heads % attention.n_kv_heads != 0)
    reader.fail("num_key_value_heads", "is " + std::to_string(attention.n_kv_heads) + ", which does not divide " +
                                           std::to_string(attention.n_heads) + " query heads");
  if (attention.head_dim % 2 != 0) reader.fail("head_dim", "is odd: " + std::to_string(attention.head_dim));
  attention.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(attention.head_dim)));
  spec.rope = read_rope(reader, attention.head_dim);
  read_layer_types(reader);
  return spec;
}

std::vector<LayerSpec> read_sparse_layers(ConfigReader& reader, int n_layers, int dense_width) {
  std::vector<LayerSpec> layers(static_cast<size_t>(n_layers));
  const std::vector<int> dense = reader.layers_or_empty("mlp_only_layers", n_layers);
  const int step = reader.size_or("decoder_sparse_step", 1);
  for (int l = 0; l < n_layers; ++l) {
    LayerSpec& layer = layers[static_cast<size_t>(l)];
    layer.moe = (l + 1) % step == 0 && std::find(dense.begin(), dense.end(), l) == dense.end();
    layer.dense_width = layer.moe ? 0 : dense_width;
  }
  return layers;
}

namespace {

void read_yarn(ConfigReader& rope_reader, double max_positions, RopeSpec& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.beta_fast = rope_reader.positive_or("beta_fast", 32);
  rope.beta_slow = rope_reader.positive_or("beta_slow", 1);
  rope.truncate = rope_reader.flag_or("truncate", true);
  rope.original_context = rope_reader.positive_or("original_max_position_embeddings", max_positions);
  rope.attention_factor =
      rope_reader.positive_or("attention_factor", rope.factor <= 1 ? 1.0 : 0.1 * exact_log(rope.factor) + 1.0);
  rope_reader.require_neutral("mscale", nullptr);
  rope_reader.require_neutral("mscale_all_dim", nullptr);
}

}  // namespace

RopeSpec read_rope(ConfigReader& reader, int head_dim) {
  static const Json kEmpty{Json::Object{}};
  const Json* parameters = reader.find("rope_parameters");
  const Json* scaling = parameters != nullptr ? parameters : reader.find("rope_scaling");
  const Json& block = scaling != nullptr && scaling->is_object() ? *scaling : kEmpty;
  ConfigReader rope_reader(block, "rope_scaling");

  RopeSpec rope;
  rope.rotary_dim = head_dim;
  rope.theta = rope_reader.positive_or("rope_theta", reader.positive_or("rope_theta", 10000.0));
  rope_reader.require_neutral("partial_rotary_factor", 1);
  const std::string type = rope_reader.text_or("rope_type", rope_reader.text_or("type", "default"));
  if (type != "default") rope.factor = rope_reader.positive("factor");
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    rope.low_freq_factor = rope_reader.positive("low_freq_factor");
    rope.high_freq_factor = rope_reader.positive("high_freq_factor");
    rope.original_context = rope_reader.positive("original_max_position_embeddings");
  } else if (type == "yarn") {
    read_yarn(rope_reader, reader.positive_or("max_position_embeddings", 1), rope);
  } else if (type != "default") {
    reader.fail_unsupported("rope_type", "is \"" + type + "\"; this version has default, linear, llama3 and yarn");
  }
  if (const auto status = rope_reader.finish({}); !status.ok()) {
    if (status.error().code == ErrorCode::kUnsupported)
      reader.fail_unsupported("rope_scaling", status.error().message);
    else
      reader.fail("rope_scaling", status.error().message);
  }
  const Json* divisors = reader.find("rope_frequency_divisors");  // written by gguf_config.cc
  if (divisors != nullptr)
    for (const Json& d : divisors->as_array()) rope.frequency_divisors.push_back(static_cast<float>(d.as_double()));
  return rope;
}

}  // namespace colibri::model
