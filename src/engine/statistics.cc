#include "engine/statistics.h"

#include <algorithm>
#include <cmath>

#include "platform/memory.h"

namespace colibri::engine {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0.0; }

Json experts_json(const Phase& phase) {
  const auto hits = static_cast<double>(phase.experts.hits);
  const auto misses = static_cast<double>(phase.experts.misses);
  Json json;
  json.set("hits", phase.experts.hits);
  json.set("misses", phase.experts.misses);
  json.set("hit_rate", ratio(hits, hits + misses));
  json.set("bytes_read", phase.experts.bytes_read);
  json.set("bytes_per_token", ratio(static_cast<double>(phase.experts.bytes_read), static_cast<double>(phase.tokens)));
  json.set("wait_seconds", phase.experts.wait_seconds);
  return json;
}

Json phase_json(const Phase& phase) {
  Json json;
  json.set("tokens", phase.tokens);
  json.set("seconds", phase.seconds);
  json.set("tokens_per_second", ratio(static_cast<double>(phase.tokens), phase.seconds));
  return json;
}

// Nearest-rank percentile of sorted values.
double percentile(const std::vector<float>& sorted, double p) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1]);
}

Json inter_token_json(std::vector<float> seconds) {
  std::sort(seconds.begin(), seconds.end());
  Json json;
  json.set("p50", percentile(seconds, 0.50));
  json.set("p90", percentile(seconds, 0.90));
  json.set("p99", percentile(seconds, 0.99));
  json.set("max", percentile(seconds, 1.0));
  return json;
}

// What each decode step took, so that slow ones can be explained.
Json steps_json(const SequenceStatistics& stats) {
  Json seconds{Json::Array{}}, misses{Json::Array{}}, bytes{Json::Array{}}, waits{Json::Array{}};
  ExpertUse before;
  for (size_t i = 0; i < stats.steps.size(); ++i) {
    const ExpertUse& after = stats.steps[i];
    seconds.push_back(static_cast<double>(stats.inter_token_seconds[i]));
    misses.push_back(after.misses - before.misses);
    bytes.push_back(after.bytes_read - before.bytes_read);
    waits.push_back(after.wait_seconds - before.wait_seconds);
    before = after;
  }
  Json json;
  json.set("seconds", std::move(seconds));
  json.set("misses", std::move(misses));
  json.set("bytes_read", std::move(bytes));
  json.set("wait_seconds", std::move(waits));
  return json;
}

Json activations_json(const SequenceStatistics& stats, const EngineFacts& facts) {
  Json layers{Json::Array{}};
  size_t i = 0;
  for (int layer = 0; layer < facts.n_moe_layers; ++layer) {
    Json::Array counts;
    for (int expert = 0; expert < facts.n_experts; ++expert)
      counts.emplace_back(static_cast<int64_t>(stats.activations[i++]));
    layers.push_back(std::move(counts));
  }
  return layers;
}

}  // namespace

void add_facts(const EngineFacts& facts, Json& json) {
  Json memory;
  memory.set("budget_bytes", facts.budget_bytes);
  memory.set("planned_bytes", facts.planned_bytes);
  memory.set("peak_rss_bytes", platform::peak_rss_bytes());
  json.set("memory", std::move(memory));
  json.set("isa", facts.isa);
  json.set("threads", facts.threads);
  json.set("io", facts.io);
}

Json store_json(const store::StoreStatistics& s) {
  Json json;
  json.set("streams", s.streams);
  json.set("slots", s.slots);
  json.set("resident", s.resident);
  json.set("hits", s.hits);
  json.set("misses", s.misses);
  json.set("demanded", s.demanded);
  json.set("guessed", s.guessed);
  json.set("guesses_used", s.guesses_used);
  json.set("evictions", s.evictions);
  json.set("bytes_read", s.bytes_read);
  json.set("guessed_bytes", s.guessed_bytes);
  json.set("reads", s.reads);
  json.set("failed_reads", s.failed_reads);
  json.set("overdue_reads", s.overdue_reads);
  json.set("wait_seconds", s.wait_seconds);
  json.set("read_seconds", s.read_seconds);
  json.set("pack_seconds", s.pack_seconds);
  json.set("slowest_read_seconds", s.slowest_read_seconds);
  Json layers{Json::Array{}};
  for (const store::LayerStatistics& l : s.layers) {
    Json layer;
    layer.set("hits", l.hits);
    layer.set("misses", l.misses);
    layer.set("resident", l.resident);
    layers.push_back(std::move(layer));
  }
  json.set("layers", std::move(layers));
  json.set("bytes_per_second", ratio(static_cast<double>(s.bytes_read), s.reading_seconds));
  json.set("probe_bytes_per_second", s.probe_bytes_per_second);
  return json;
}

Json stats_json(const SequenceStatistics& stats, const EngineFacts& facts, const store::StoreStatistics& store,
                int64_t prompt_tokens, int64_t generated_tokens) {
  Json json;
  json.set("model", facts.model);
  json.set("prompt_tokens", prompt_tokens);
  json.set("generated_tokens", generated_tokens);
  json.set("finish_reason", stats.finish_reason);
  json.set("load_seconds", facts.load_seconds);
  json.set("time_to_first_token_seconds", stats.first_token_seconds < 0 ? Json{} : Json(stats.first_token_seconds));
  Json prefill = phase_json(stats.prefill);
  prefill.set("experts", experts_json(stats.prefill));
  json.set("prefill", std::move(prefill));
  Json decode = phase_json(stats.decode);
  decode.set("inter_token_seconds", inter_token_json(stats.inter_token_seconds));
  decode.set("experts", experts_json(stats.decode));
  decode.set("steps", steps_json(stats));
  json.set("decode", std::move(decode));
  json.set("activations", activations_json(stats, facts));
  json.set("store", store_json(store));
  add_facts(facts, json);
  return json;
}

}  // namespace colibri::engine
