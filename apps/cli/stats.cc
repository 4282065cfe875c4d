#include "stats.h"

#include <algorithm>

namespace colibri::cli {
namespace {

constexpr const char* kKeys[] = {"model",
                                 "prompt_tokens",
                                 "generated_tokens",
                                 "finish_reason",
                                 "load_seconds",
                                 "time_to_first_token_seconds",
                                 "prefill",
                                 "decode",
                                 "activations",
                                 "store",
                                 "memory",
                                 "isa",
                                 "threads",
                                 "io"};

double number_at(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

}  // namespace

Outcome<json::object> sequence_stats(const api::Engine& engine, const api::Sequence& sequence,
                                     const std::string& model) {
  const auto text = sequence.stats_json();
  if (!text) return text.error();
  auto parsed = parse_json(*text, "statistics");
  if (!parsed) return parsed.error();
  if (!parsed->is_object()) return run_error("statistics: not a JSON object");
  json::object& known = parsed->get_object();
  const colibri_info info = engine.info();
  known["model"] = model;
  if (!known.contains("load_seconds")) known["load_seconds"] = info.load_seconds;
  if (!known.contains("isa")) known["isa"] = info.isa ? info.isa : "";
  if (!known.contains("threads")) known["threads"] = info.threads;
  if (!known.contains("io")) known["io"] = info.io ? info.io : "";
  json::object ordered;
  for (const char* key : kKeys) {
    const json::value* value = known.if_contains(key);
    if (value == nullptr) return run_error("statistics: the library gave no \"" + std::string(key) + "\"");
    ordered[key] = *value;
  }
  return ordered;
}

void add_counts(json::value& sum, const json::value& more) {
  if (sum.is_array() && more.is_array()) {
    const size_t n = std::min(sum.get_array().size(), more.get_array().size());
    for (size_t i = 0; i < n; ++i) add_counts(sum.get_array()[i], more.get_array()[i]);
  } else if (sum.is_object() && more.is_object()) {
    for (auto& [key, value] : sum.get_object()) {
      if (const json::value* other = more.get_object().if_contains(key)) add_counts(value, *other);
    }
  } else if (sum.is_int64() && more.is_int64()) {
    sum = sum.get_int64() + more.get_int64();
  } else if (sum.is_number() && more.is_number()) {
    sum = sum.to_number<double>() + more.to_number<double>();
  }
}

void refresh_expert_rates(json::object& experts, double tokens) {
  const double wanted = number_at(experts, "hits") + number_at(experts, "misses");
  experts["hit_rate"] = wanted > 0 ? number_at(experts, "hits") / wanted : 0.0;
  experts["bytes_per_token"] = tokens > 0 ? number_at(experts, "bytes_read") / tokens : 0.0;
}

}  // namespace colibri::cli
