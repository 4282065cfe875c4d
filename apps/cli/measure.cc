#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "common/signals.h"
#include "stats.h"

namespace colibri::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Trace {
  double submitted = 0;       // seconds after the start of the phase
  std::vector<double> times;  // of each token, seconds after the start of the phase
  double ended = 0;           // seconds after the start of the phase
  Status status;
};

// The times are the engine's own, so it does not matter when this thread gets to run.
void follow(api::Sequence& sequence, Trace& trace) {
  for (;;) {
    const auto event = sequence.next();
    if (!event) {
      trace.status = event.error();
      return;
    }
    if (event->kind == COLIBRI_EVENT_TOKEN) trace.times.push_back(trace.submitted + event->seconds);
    if (event->kind != COLIBRI_EVENT_END) continue;
    trace.ended = trace.submitted + event->seconds;
    if (event->status != COLIBRI_OK) trace.status = Error{event->status, std::string(event->error)};
    return;
  }
}

// Tokens as random as the prompt, so that experts are chosen as random tokens choose them; or the most likely ones.
constexpr double kRandom = 100, kGreedy = 0;

api::Request request_of(const TokenIds& prompt, int32_t max_tokens, double temperature) {
  api::Request request;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.temperature = temperature;
  request.seed = prompt.empty() ? 0 : static_cast<uint64_t>(prompt.front());
  request.ignore_eos = true;
  return request;
}

struct Phase {
  std::vector<Trace> traces;
  json::object stats;
};

Outcome<json::object> added_stats(const api::Engine& engine, const std::vector<api::Sequence>& sequences,
                                  const std::string& model) {
  json::object sum;
  for (const api::Sequence& sequence : sequences) {
    auto stats = sequence_stats(engine, sequence, model);
    if (!stats) return stats.error();
    if (sum.empty()) {
      sum = std::move(*stats);
      continue;
    }
    sum["decode"].as_object().erase("steps");  // each sequence has its own
    for (const char* key : {"prompt_tokens", "generated_tokens", "activations"}) add_counts(sum[key], (*stats)[key]);
    for (const char* phase : {"prefill", "decode"}) add_counts(sum[phase], (*stats)[phase]);
  }
  return sum;
}

Outcome<Phase> run_phase(api::Engine& engine, const std::vector<TokenIds>& prompts, int32_t max_tokens,
                         double temperature, const std::string& model) {
  Phase phase;
  phase.traces.resize(prompts.size());
  std::vector<api::Sequence> sequences;
  sequences.reserve(prompts.size());
  const Clock::time_point start = Clock::now();
  for (size_t i = 0; i < prompts.size(); ++i) {
    phase.traces[i].submitted = std::chrono::duration<double>(Clock::now() - start).count();
    auto sequence = engine.submit(request_of(prompts[i], max_tokens, temperature));
    if (!sequence) return sequence.error();
    sequences.push_back(std::move(*sequence));
  }
  {
    std::vector<std::unique_ptr<CancelOnInterrupt>> cancels;
    for (const api::Sequence& sequence : sequences) cancels.push_back(std::make_unique<CancelOnInterrupt>(sequence));
    std::vector<std::jthread> followers;
    for (size_t i = 0; i < sequences.size(); ++i) {
      followers.emplace_back([&, i] { follow(sequences[i], phase.traces[i]); });
    }
  }
  for (const Trace& trace : phase.traces) {
    if (!trace.status) return trace.status.error();
    if (trace.times.size() != static_cast<size_t>(max_tokens)) {
      return run_error("bench: a sequence gave " + std::to_string(trace.times.size()) + " of " +
                       std::to_string(max_tokens) + " tokens; is the context too small?");
    }
  }
  auto stats = added_stats(engine, sequences, model);
  if (!stats) return stats.error();
  phase.stats = std::move(*stats);
  return phase;
}

double last_first_token(const std::vector<Trace>& traces) {
  double last = 0;
  for (const Trace& trace : traces) last = std::max(last, trace.times.front());
  return last;
}

double first_end(const std::vector<Trace>& traces) {
  double first = traces.front().times.back();
  for (const Trace& trace : traces) first = std::min(first, trace.times.back());
  return first;
}

void add_gaps(const Trace& trace, std::vector<double>& gaps) {
  for (size_t i = 1; i < trace.times.size(); ++i) gaps.push_back(trace.times[i] - trace.times[i - 1]);
}

int64_t tokens_between(const Trace& trace, double begin, double end) {
  return std::count_if(trace.times.begin(), trace.times.end(), [&](double t) { return t > begin && t <= end; });
}

}  // namespace

Outcome<Measurement> measure_prefill(api::Engine& engine, const std::vector<TokenIds>& prompts,
                                     const std::string& model) {
  auto phase = run_phase(engine, prompts, 0, kGreedy, model);
  if (!phase) return phase.error();
  Measurement result;
  for (const TokenIds& prompt : prompts) result.tokens += static_cast<int64_t>(prompt.size());
  for (const Trace& trace : phase->traces) {
    result.seconds = std::max(result.seconds, trace.ended);
    result.first_token_seconds = std::max(result.first_token_seconds, trace.ended - trace.submitted);
  }
  result.stats = std::move(phase->stats);
  return result;
}

Outcome<Measurement> measure_decode(api::Engine& engine, const std::vector<TokenIds>& prompts, int32_t n,
                                    NextTokens tokens, const std::string& model) {
  auto phase = run_phase(engine, prompts, n + 1, tokens == NextTokens::kRandom ? kRandom : kGreedy, model);
  if (!phase) return phase.error();
  Measurement result;
  const double begin = last_first_token(phase->traces);
  const double end = first_end(phase->traces);
  result.seconds = std::max(0.0, end - begin);
  for (const Trace& trace : phase->traces) {
    result.tokens += tokens_between(trace, begin, end);
    add_gaps(trace, result.gaps);
    result.first_token_seconds = std::max(result.first_token_seconds, trace.times.front() - trace.submitted);
  }
  result.stats = std::move(phase->stats);
  return result;
}

json::object percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) -> json::value {
    if (values.empty()) return 0.0;
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::min(std::max<size_t>(rank, 1), values.size()) - 1];
  };
  return {{"p50", at(0.5)}, {"p90", at(0.9)}, {"p99", at(0.99)}, {"max", at(1.0)}};
}

}  // namespace colibri::cli
