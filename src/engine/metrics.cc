#include "engine/metrics.h"

#include <algorithm>

namespace colibri::engine {
namespace {

constexpr std::array kShort = {0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1,
                               0.15,  0.2,    0.3,   0.5,    0.75, 1.0,   1.5,  2.5,  5.0,  10.0, 30.0};
constexpr std::array kLong = {0.01, 0.025, 0.05, 0.1,  0.2,  0.35, 0.5,   0.75,  1.0,   1.5,    2.5,
                              5.0,  7.5,   10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0};
constexpr std::array kRows = {1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0};

constexpr std::array<std::string_view, kCauses> kCauseNames = {"decode",   "decode_wait", "prefill", "prefill_wait",
                                                               "sampling", "prefix",      "other"};
constexpr double kFade = 0.05;
constexpr double kSlow = 2;  // times the usual

}  // namespace

std::string_view name(Cause cause) { return kCauseNames[static_cast<size_t>(cause)]; }

void Histogram::observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bound)].add(1);
  sum_.add(value);
}

uint64_t Histogram::count() const {
  uint64_t n = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) n += counts_[i].get();
  return n;
}

Json Histogram::json() const {
  Json::Array bounds, counts;
  for (const double b : bounds_) bounds.emplace_back(b);
  for (size_t i = 0; i <= bounds_.size(); ++i) counts.emplace_back(counts_[i].get());
  Json json;
  json.set("bounds", std::move(bounds)).set("counts", std::move(counts)).set("sum", sum());
  return json;
}

EngineMetrics::EngineMetrics()
    : time_to_first_token(kLong), inter_token(kShort), queue(kLong), step(kShort), request(kLong), batch_rows(kRows) {}

void EngineMetrics::end_step(const std::array<double, kCauses>& seconds, size_t decode_rows) {
  double total = 0;
  for (size_t i = 0; i < kCauses; ++i) {
    cause_seconds[i].add(seconds[i]);
    total += seconds[i];
  }
  steps.add(1);
  if (decode_rows == 0) return;  // nobody waited for a token
  step.observe(total);
  batch_rows.observe(static_cast<double>(decode_rows));
  // The cause that grew most over its usual time, so that a slow disk is not called computing.
  if (usual_step_ > 0 && total > kSlow * usual_step_) {
    size_t worst = 0;
    for (size_t i = 1; i < kCauses; ++i)
      if (seconds[i] - usual_[i] > seconds[worst] - usual_[worst]) worst = i;
    slow_steps[worst].add(1);
  }
  const double fade = usual_step_ == 0 ? 1 : kFade;
  usual_step_ += fade * (total - usual_step_);
  for (size_t i = 0; i < kCauses; ++i) usual_[i] += fade * (seconds[i] - usual_[i]);
}

void EngineMetrics::count_end(std::string_view reason) {
  Counter<uint64_t>& counter = reason == "stop"     ? ended_stop
                               : reason == "length" ? ended_length
                               : reason == "error"  ? ended_error
                                                    : ended_cancelled;
  counter.add(1);
}

MetricList& MetricList::metric(const char* name, const char* kind, const char* help) {
  Json metric;
  metric.set("name", name).set("help", help).set("kind", kind).set("samples", Json::Array{});
  list_.push_back(std::move(metric));
  return *this;
}

void MetricList::value(double value, Json::Object labels) {
  Json sample;
  sample.set("labels", std::move(labels)).set("value", value);
  list_.as_array().back().as_object().back().second.push_back(std::move(sample));
}

void MetricList::histogram(const Histogram& histogram) {
  Json sample = histogram.json();
  sample.set("labels", Json::Object{});
  list_.as_array().back().as_object().back().second.push_back(std::move(sample));
}

void add_metrics(const EngineMetrics& m, MetricList& list) {
  const auto one = [&](const char* name, const char* kind, const char* help, double value) {
    list.metric(name, kind, help).value(value);
  };
  const auto histogram = [&](const char* name, const char* help, const Histogram& h) {
    list.metric(name, "histogram", help).histogram(h);
  };
  histogram("time_to_first_token_seconds", "From submission to the first token", m.time_to_first_token);
  histogram("inter_token_seconds", "Between two tokens of an answer", m.inter_token);
  histogram("queue_seconds", "From submission to the first computed row", m.queue);
  histogram("request_seconds", "From submission to the end", m.request);
  histogram("step_seconds", "Of a step that gave tokens", m.step);
  histogram("batch_rows", "Sequences in one decode pass", m.batch_rows);
  one("requests_running", "gauge", "Sequences that have a slot", static_cast<double>(m.running.get()));
  one("requests_waiting", "gauge", "Sequences that wait for a slot", static_cast<double>(m.waiting.get()));
  one("kv_positions", "gauge", "Tokens whose keys and values are in the cache", static_cast<double>(m.positions.get()));
  one("requests_submitted_total", "counter", "Requests that were accepted", static_cast<double>(m.submitted.get()));
  list.metric("requests_ended_total", "counter", "Requests by how they ended");
  for (const auto& [reason, n] : {std::pair{"stop", &m.ended_stop}, std::pair{"length", &m.ended_length},
                                  std::pair{"cancelled", &m.ended_cancelled}, std::pair{"error", &m.ended_error}})
    list.value(static_cast<double>(n->get()), {{"finish_reason", reason}});
  one("prompt_tokens_total", "counter", "Tokens of prompts that were computed",
      static_cast<double>(m.prompt_tokens.get()));
  one("prompt_tokens_cached_total", "counter", "Tokens of prompts that a computed prefix gave",
      static_cast<double>(m.cached_tokens.get()));
  one("generated_tokens_total", "counter", "Tokens of answers", static_cast<double>(m.generated_tokens.get()));
  one("steps_total", "counter", "Steps of the engine", static_cast<double>(m.steps.get()));
  one("prefill_passes_total", "counter", "Passes over prompts", static_cast<double>(m.prefill_passes.get()));
  list.metric("step_cause_seconds_total", "counter", "What the time of steps went to");
  for (size_t i = 0; i < kCauses; ++i) list.value(m.cause_seconds[i].get(), {{"cause", kCauseNames[i]}});
  list.metric("slow_steps_total", "counter", "Steps of over twice the usual time, by what took longer than usual");
  for (size_t i = 0; i < kCauses; ++i)
    list.value(static_cast<double>(m.slow_steps[i].get()), {{"cause", kCauseNames[i]}});
}

}  // namespace colibri::engine
