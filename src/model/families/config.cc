#include "model/families/config.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace colibri::model {
namespace {

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

// A value for a message: numbers that JSON has no word for by their name, long ones cut.
std::string brief(const Json& value) {
  if (value.is_number() && std::isnan(value.as_double())) return "NaN";
  if (value.is_number() && std::isinf(value.as_double())) return value.as_double() > 0 ? "infinity" : "-infinity";
  const std::string text = value.dump();
  return text.size() <= 120 ? text : text.substr(0, 117) + "...";
}

}  // namespace

Json whole_number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

// In messages about a GGUF file: the key that is in the file.
std::string ConfigReader::name_of(std::string_view key) const {
  const Json* architecture = config_.find_value("gguf");
  if (architecture == nullptr || !architecture->is_string()) return std::string(key);
  for (const Synonym& synonym : kSynonyms)
    if (synonym.key == key) key = synonym.written;
  return gguf_key_of(architecture->as_string(), key);
}

void ConfigReader::record(ErrorCode code, std::string_view key, const std::string& what) {
  if (!error_) error_ = Error{code, source_ + ": \"" + name_of(key) + "\" " + what};
}

void ConfigReader::take(const Status& status) {
  if (!status.ok() && !error_) error_ = status.error();
}

ConfigReader ConfigReader::block(const Json& object, std::string_view key) const {
  return {object, source_ + ": in \"" + name_of(key) + "\""};
}

void ConfigReader::fail(std::string_view key, const std::string& what) { record(ErrorCode::kInvalidModel, key, what); }

void ConfigReader::fail_unsupported(std::string_view key, const std::string& what) {
  record(ErrorCode::kUnsupported, key, what);
}

const Json* ConfigReader::find_synonym(std::string_view key, const Json* value) {
  for (const FamilyKeys::Synonym& synonym : keys_->synonyms) {
    const Json* other = synonym.key == key ? config_.find_value(synonym.other) : nullptr;
    if (other == nullptr) continue;
    read_.emplace(synonym.other);
    if (value != nullptr && !same(*value, *other))
      fail(key, "is " + brief(*value) + ", but \"" + std::string(synonym.other) + "\", which means the same, is " +
                    brief(*other));
    if (value == nullptr) value = other;
  }
  return value;
}

const Json* ConfigReader::find(std::string_view key) {
  read_.emplace(key);
  const Json* value = config_.find_value(key);
  if (from_gguf()) {
    for (const Synonym& synonym : kSynonyms)
      if (synonym.key == key && value == nullptr) return find(synonym.written);
    return value;
  }
  if (keys_ == nullptr) return value;
  value = find_synonym(key, value);
  if (value != nullptr || config_.find(key) != nullptr) return value;
  for (const FamilyKeys::Default& d : keys_->defaults)
    if (d.key == key) return &d.value;
  return nullptr;
}

double ConfigReader::number(std::string_view key, const Json& value, double low, double high) {
  if (!value.is_number()) {
    fail(key, "is " + brief(value) + ", expected a number");
    return low;
  }
  const double d = value.as_double();
  if (!(d >= low && d <= high)) {
    fail(key, "is " + brief(value) + ", expected " + whole_number(low).dump() + " to " + whole_number(high).dump());
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
  if (d != std::floor(d)) fail(key, "is " + brief(*value) + ", expected a whole number");
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
  if (d != std::floor(d)) fail(key, "holds " + brief(items[static_cast<size_t>(layer)]) + ", expected whole numbers");
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

double ConfigReader::fraction_or(std::string_view key, double fallback) {
  const Json* value = find(key);
  return value == nullptr ? fallback : number(key, *value, 1e-30, 1);
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

// The JSON parser has made a number of {"__float__": "Infinity"}, which transformers 5 writes.
void ConfigReader::read_limits(std::string_view key, float& low, float& high) {
  const Json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_array() || value->as_array().size() != 2)
    return fail(key, "is " + brief(*value) + ", expected two numbers");
  low = static_cast<float>(number(key, value->as_array()[0], 0, 1e30));
  const Json& end = value->as_array()[1];
  high = end.is_number() && end.as_double() == HUGE_VAL ? HUGE_VALF : static_cast<float>(number(key, end, 0, 1e30));
  if (low > high) fail(key, "is " + brief(*value) + ", expected the lower number first");
}

bool ConfigReader::flag_or(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_bool()) return value->as_bool();
  fail(key, "is " + brief(*value) + ", expected true or false");
  return fallback;
}

std::string ConfigReader::text_or(std::string_view key, std::string_view fallback) {
  const Json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string()) return value->as_string();
  fail(key, "is " + brief(*value) + ", expected a string");
  return std::string(fallback);
}

std::vector<int> ConfigReader::layers_or_empty(std::string_view key, int n_layers) {
  std::vector<int> layers;
  const Json* value = find(key);
  if (value == nullptr) return layers;
  if (!value->is_array()) {
    fail(key, "is " + brief(*value) + ", expected a list of layer numbers");
    return layers;
  }
  for (const Json& item : value->as_array()) {
    if (!item.is_int() || item.as_int() < 0 || item.as_int() >= n_layers) {
      fail(key, "names layer " + brief(item) + ", but there are " + std::to_string(n_layers) + " layers");
      return layers;
    }
    layers.push_back(static_cast<int>(item.as_int()));
  }
  return layers;
}

void ConfigReader::require_value(std::string_view key, const Json& expected) {
  const Json* value = find(key);
  if (value == nullptr || same(*value, expected)) return;
  fail_unsupported(key, "is " + brief(*value) + "; this family is computed with " + expected.dump() + " only");
}

void ConfigReader::require_neutral(std::string_view key, const Json& neutral) {
  read_.emplace(key);
  const Json* value = config_.find(key);
  if (value == nullptr || is_off(*value) || same(*value, neutral)) return;
  fail_unsupported(key, "is " + brief(*value) + ", which this version cannot compute for this family");
}

void ConfigReader::check_unread(std::string_view key, const Json& value, const ModelSpec& spec) {
  if (changes_nothing(key)) return;
  const std::optional<bool> agreed = agrees(key, value, spec);
  if (agreed ? *agreed : is_off(value)) return;
  if (agreed)
    fail_unsupported(key, "is " + brief(value) + ", which this version cannot compute for this family");
  else
    fail_unsupported(key, "is " + brief(value) +
                              ", a setting that this version does not know, so the answers could be others; if it is "
                              "known to change nothing, take it out of the file");
}

Result<ModelSpec> ConfigReader::finish(ModelSpec spec) {
  if (!read_.contains("layer_types")) require_layer_types(*this, spec, "full_attention");
  const auto& unused = keys_->unused;
  for (const auto& [key, value] : config_.as_object())
    if (!read_.contains(key) && std::find(unused.begin(), unused.end(), key) == unused.end())
      check_unread(key, value, spec);
  if (error_) return *error_;
  return spec;
}

Status ConfigReader::finish_block() {
  for (const auto& [key, value] : config_.as_object())
    if (!read_.contains(key) && !is_off(value))
      fail_unsupported(key, "is " + brief(value) + ", a setting that this version does not know here");
  return error_ ? Status(*error_) : Status();
}

}  // namespace colibri::model
