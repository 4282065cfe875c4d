#include "generation_options.h"

#include <algorithm>
#include <charconv>

namespace colibri::server {
namespace {

void optional_number(Fields& fields, std::string_view name, double low, double high, std::optional<double>& out) {
  double number = 0;
  if (fields.number(name, low, high, number)) out = number;
}

void read_sampling(Fields& fields, GenerationOptions& options) {
  optional_number(fields, "temperature", 0, 2, options.temperature);
  optional_number(fields, "top_p", 0, 1, options.top_p);
  optional_number(fields, "min_p", 0, 1, options.min_p);
  // Both names are in use for the same thing.
  optional_number(fields, "repetition_penalty", 0.001, 10, options.repetition_penalty);
  optional_number(fields, "repeat_penalty", 0.001, 10, options.repetition_penalty);
  optional_number(fields, "presence_penalty", -2, 2, options.presence_penalty);
  optional_number(fields, "frequency_penalty", -2, 2, options.frequency_penalty);
  int64_t top_k = 0;
  if (fields.integer("top_k", -1, INT32_MAX, top_k)) options.top_k = std::max<int64_t>(top_k, 0);
}

// Any whole number of 64 bits; -1 is llama.cpp's word for "choose one".
void read_seed(Fields& fields, std::optional<uint64_t>& seed) {
  const json::value* value = fields.find("seed");
  if (value == nullptr) return;
  if (const uint64_t* large = value->if_uint64()) {
    seed = *large;
  } else if (const std::optional<int64_t> number = whole_number(*value)) {
    if (*number != -1) seed = static_cast<uint64_t>(*number);
  } else {
    fields.fail("seed", "expected a whole number of 64 bits");
  }
}

std::optional<int32_t> token_of(std::string_view text) {
  int32_t id = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (code != std::errc() || end != text.data() + text.size() || id < 0) return std::nullopt;
  return id;
}

void add_bias(Fields& fields, std::optional<int64_t> id, const json::value& value,
              std::vector<colibri_logit_bias>& out) {
  if (!id || *id < 0 || *id > INT32_MAX) return fields.fail("logit_bias", "the tokens must be ids");
  double bias = -kLogitBiasBound;  // false: never, as llama.cpp writes it
  if (value.is_number()) bias = value.to_number<double>();
  if (!(value.is_number() || value == json::value(false)) || !(bias >= -kLogitBiasBound && bias <= kLogitBiasBound))
    return fields.fail("logit_bias", "the bias of token " + std::to_string(*id) + " must be a number from -100 to 100");
  out.push_back({static_cast<int32_t>(*id), bias});
}

// {"id": bias, ...}, or [[id, bias], ...] as llama.cpp has it.
void read_logit_bias(Fields& fields, std::vector<colibri_logit_bias>& out) {
  const json::value* value = fields.find("logit_bias");
  if (value == nullptr) return;
  const size_t size = value->is_object()  ? value->get_object().size()
                      : value->is_array() ? value->get_array().size()
                                          : 0;
  if (!value->is_structured()) return fields.fail("logit_bias", "expected an object {\"TOKEN ID\": BIAS}");
  if (size > kMaxLogitBias)
    return fields.fail("logit_bias",
                       "at most " + std::to_string(kMaxLogitBias) + " tokens, got " + std::to_string(size));
  if (const json::object* map = value->if_object()) {
    for (const auto& member : *map) {
      const std::optional<int32_t> id = token_of({member.key().data(), member.key().size()});
      add_bias(fields, id ? std::optional<int64_t>(*id) : std::nullopt, member.value(), out);
    }
    return;
  }
  for (const json::value& pair : value->get_array()) {
    if (!pair.is_array() || pair.get_array().size() != 2)
      return fields.fail("logit_bias", "expected pairs [TOKEN ID, BIAS]");
    add_bias(fields, whole_number(pair.at(0)), pair.at(1), out);
  }
}

void read_streaming(Fields& fields, GenerationOptions& options) {
  fields.boolean("stream", options.stream);
  const json::object* stream_options = fields.object("stream_options");
  if (stream_options == nullptr) return;
  Fields inner(*stream_options, "stream_options");
  inner.boolean("include_usage", options.include_usage);
  fields.fail(inner.error());
  if (!options.stream) fields.fail("stream_options", "only allowed when stream is true");
}

void read_extras(Fields& fields, GenerationOptions& options) {
  fields.boolean("ignore_eos", options.ignore_eos);
  fields.boolean("return_progress", options.return_progress);
  fields.boolean("timings_per_token", options.timings_per_token);
  fields.text("cache_salt", options.prefix_key);
  bool activations = false;
  if (fields.boolean("expert_activations", activations)) options.expert_activations = activations;
}

// Other servers know these. Their neutral values are good; anything else would be a silent lie.
void refuse_unsupported(Fields& fields) {
  for (const char* name : {"typical_p", "tfs_z", "dynatemp_exponent", "length_penalty"})
    fields.refuse(name, 1, "not supported; leave it out");
  for (const char* name : {"mirostat", "dry_multiplier", "xtc_probability", "dynatemp_range", "top_a", "n_probs",
                           "prompt_logprobs", "min_tokens", "n_discard"})
    fields.refuse(name, 0, "not supported; leave it out");
  for (const char* name : {"grammar", "guided_regex", "guided_grammar", "guided_choice", "guided_json",
                           "structured_outputs", "prompt_embeds", "lora", "speculative"})
    fields.refuse(name, nullptr, "not supported; response_format with a JSON schema is");
  fields.refuse("use_beam_search", false, "not supported; leave it out");
}

}  // namespace

void read_stop(Fields& fields, std::string_view name, std::vector<std::string>& stop) {
  if (!fields.texts(name, kMaxStops, stop)) return;
  std::erase(stop, std::string());
  for (const std::string& text : stop) {
    if (text.find('\0') != text.npos) fields.fail(name, "a stop string holds a NUL");
    if (text.size() > kMaxStopBytes)
      fields.fail(name, "a stop string has " + std::to_string(text.size()) + " bytes, at most " +
                            std::to_string(kMaxStopBytes) + " are allowed");
  }
}

void read_max_tokens(Fields& fields, int64_t low, GenerationOptions& options) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    int64_t most = -1;
    if (!fields.integer(name, -1, kMaxTokens, most) || most == -1) continue;
    if (most < low)
      return fields.fail(name, "must be at least " + std::to_string(low) + ", got " + std::to_string(most));
    options.max_tokens = options.max_tokens < 0 ? most : std::min(options.max_tokens, most);
  }
}

json::value read_response_format(Fields& fields) {
  const json::value* schema = fields.find("json_schema");
  json::value format = nullptr;
  if (schema != nullptr) format = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
  const json::object* given = fields.object("response_format");
  if (given == nullptr) return format;
  Fields inner(*given, "response_format");
  std::string type;
  if (!inner.choice("type", {"text", "json_object", "json_schema"}, type) && inner.ok())
    inner.fail("type", "missing; text, json_object or json_schema");
  if (type == "json_schema" && inner.object("json_schema") == nullptr)
    inner.fail("json_schema", "missing; {\"name\", \"schema\"}");
  fields.fail(inner.error());
  if (type == "text") return format;
  const json::value* beside = inner.find("schema");  // llama.cpp: {"type": "json_object", "schema": {...}}
  if (type == "json_object" && beside != nullptr)
    return {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *beside}}}};
  return *given;
}

void read_generation_options(Fields& fields, GenerationOptions& options) {
  fields.text("model", options.model);
  fields.integer("n", 1, kMaxAnswers, options.n);
  read_sampling(fields, options);
  read_seed(fields, options.seed);
  read_logit_bias(fields, options.logit_bias);
  read_stop(fields, "stop", options.stop);
  read_streaming(fields, options);
  read_extras(fields, options);
  refuse_unsupported(fields);
  fields.accept({"user", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
                 "safety_identifier", "cache_prompt", "id_slot", "samplers", "stream_format", "skip_special_tokens",
                 "logit_bias_type"});
}

}  // namespace colibri::server
