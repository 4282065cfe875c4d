// colibri bench: prefill of p tokens and, separately, decode of n tokens.
//
// Every repetition uses other random tokens, the same ones in every run of the program, so that two runs are
// comparable.

#include <cmath>
#include <cstdio>
#include <random>

#include "commands.h"
#include "common/input.h"
#include "common/signals.h"
#include "measure.h"
#include "preflight.h"
#include "session.h"
#include "stats.h"

namespace colibri::cli {
namespace {

// Prompts for the runs: random, or cut out of a text one after the other, starting again at its end.
class TokenSource {
 public:
  TokenSource(TokenIds text, uint64_t seed, int32_t vocab_size)
      : text_(std::move(text)), random_(seed), vocab_(vocab_size) {}

  std::vector<TokenIds> prompts(size_t count, int32_t size) {
    std::vector<TokenIds> result(count);
    for (TokenIds& prompt : result) {
      for (int32_t i = 0; i < size; ++i) prompt.push_back(next());
    }
    return result;
  }

 private:
  int32_t next() {
    if (!text_.empty()) return text_[position_++ % text_.size()];
    return static_cast<int32_t>(random_() % static_cast<uint64_t>(vocab_));
  }

  TokenIds text_;
  size_t position_ = 0;
  std::mt19937_64 random_;
  int32_t vocab_;
};

struct Repetition {
  std::optional<Measurement> prefill, decode;
};

class Bench {
 public:
  Bench(const BenchArgs& args, api::Engine& engine, TokenSource source, size_t parallel)
      : args_(args), engine_(engine), source_(std::move(source)), parallel_(parallel) {}

  Status warm_up() {
    const auto prefilled = prefill(std::min(args_.prompt_tokens, 32));
    if (!prefilled) return prefilled.error();
    const auto decoded = decode(std::min(args_.generated_tokens, 4));
    if (!decoded) return decoded.error();
    return {};
  }

  Outcome<Repetition> repeat() {
    auto prefilled = prefill(args_.prompt_tokens);
    if (!prefilled) return prefilled.error();
    auto decoded = decode(args_.generated_tokens);
    if (!decoded) return decoded.error();
    return Repetition{std::move(*prefilled), std::move(*decoded)};
  }

 private:
  using Maybe = std::optional<Measurement>;  // nothing when there was nothing to measure

  Outcome<Maybe> prefill(int32_t tokens) {
    if (tokens == 0) return Maybe();
    return optional(measure_prefill(engine_, source_.prompts(parallel_, tokens), args_.engine.model));
  }
  // Decoding needs one token to start from, also at depth 0.
  Outcome<Maybe> decode(int32_t tokens) {
    if (tokens == 0) return Maybe();
    const int32_t depth = std::max(args_.depth, 1);
    const NextTokens next = args_.text_file.empty() ? NextTokens::kRandom : NextTokens::kLikeliest;
    return optional(measure_decode(engine_, source_.prompts(parallel_, depth), tokens, next, args_.engine.model));
  }
  static Outcome<Maybe> optional(Outcome<Measurement> measured) {
    if (!measured) return measured.error();
    return Maybe(std::move(*measured));
  }

  const BenchArgs& args_;
  api::Engine& engine_;
  TokenSource source_;
  size_t parallel_;
};

// The phase's object of the statistics with our times. A phase that did not run keeps the form, with zeros.
json::object phase_json(const json::value& known, const std::optional<Measurement>& measured) {
  json::object phase = known.get_object();
  const Measurement none;
  const Measurement& values = measured ? *measured : none;
  phase["tokens"] = values.tokens;
  phase["seconds"] = values.seconds;
  phase["tokens_per_second"] = values.tokens_per_second();
  if (phase.contains("inter_token_seconds")) phase["inter_token_seconds"] = percentiles(values.gaps);
  if (json::value* experts = phase.if_contains("experts"); experts && experts->is_object()) {
    refresh_expert_rates(experts->get_object(), static_cast<double>(values.tokens));
  }
  return phase;
}

// One statistics object of both phases.
json::object repetition_json(const Repetition& repetition) {
  const Measurement& last = repetition.decode ? *repetition.decode : *repetition.prefill;
  const Measurement& first = repetition.prefill ? *repetition.prefill : last;
  json::object stats = last.stats;
  stats["prompt_tokens"] = repetition.prefill ? repetition.prefill->tokens : 0;
  stats["generated_tokens"] = repetition.decode ? repetition.decode->tokens : 0;
  stats["time_to_first_token_seconds"] = first.first_token_seconds;
  stats["prefill"] = phase_json(first.stats.at("prefill"), repetition.prefill);
  stats["decode"] = phase_json(last.stats.at("decode"), repetition.decode);
  if (repetition.prefill && repetition.decode) add_counts(stats["activations"], first.stats.at("activations"));
  return stats;
}

struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};

MeanAndDeviation summary(const std::vector<double>& values) {
  MeanAndDeviation result;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / n;
  if (values.size() < 2) return result;
  for (const double value : values) result.deviation += (value - result.mean) * (value - result.mean) / (n - 1);
  result.deviation = std::sqrt(result.deviation);
  return result;
}

std::string table_row(const std::string& test, const std::vector<double>& rates) {
  if (rates.empty()) return "";
  const MeanAndDeviation rate = summary(rates);
  char line[128];
  std::snprintf(line, sizeof(line), "%-20s %12.2f ± %.2f\n", test.c_str(), rate.mean, rate.deviation);
  return line;
}

std::string table(const BenchArgs& args, const colibri_info& info, size_t parallel,
                  const std::vector<Repetition>& repetitions) {
  std::vector<double> prefill, decode;
  for (const Repetition& repetition : repetitions) {
    if (repetition.prefill) prefill.push_back(repetition.prefill->tokens_per_second());
    if (repetition.decode) decode.push_back(repetition.decode->tokens_per_second());
  }
  const std::string depth = args.depth > 0 ? " @ d" + std::to_string(args.depth) : "";
  const std::string times = parallel > 1 ? " x " + std::to_string(parallel) : "";
  std::string text = args.engine.model + ": " + (info.family ? info.family : "") + ", " + (info.isa ? info.isa : "") +
                     ", " + std::to_string(info.threads) + " threads, " + std::to_string(args.repetitions) +
                     " repetitions\n";
  text += "test                  tokens per second, mean ± standard deviation\n";
  text += table_row("pp" + std::to_string(args.prompt_tokens) + times, prefill);
  text += table_row("tg" + std::to_string(args.generated_tokens) + depth + times, decode);
  return text;
}

std::string json_array(const std::vector<Repetition>& repetitions) {
  json::array array;
  for (const Repetition& repetition : repetitions) array.push_back(repetition_json(repetition));
  return dump_json(array) + "\n";
}

Outcome<TokenIds> text_tokens(const BenchArgs& args) {
  if (args.text_file.empty()) return TokenIds();
  const auto content = read_file(args.text_file);
  if (!content) return content.error();
  const auto text = api::Text::open(args.engine.model);
  if (!text) return text.error();
  auto ids = text->view().tokenize(*content, tokenize_flags(false));
  if (ids && ids->empty()) return usage_error(args.text_file + ": is empty");
  return ids;
}

size_t sequences_at_once(const Settings& settings) {
  const std::string& value = settings.at("parallel").value;
  return std::max<size_t>(1, std::strtoul(value.c_str(), nullptr, 10));  // checked before; "auto" gives 0, so 1
}

// Decoding n tokens takes what stands before them and the token whose time the first gap counts from.
int64_t decode_needs(const BenchArgs& args) {
  if (args.generated_tokens == 0) return 0;
  return std::max<int64_t>(args.depth, 1) + args.generated_tokens + 1;
}

int64_t context_needed(const BenchArgs& args) { return std::max<int64_t>(args.prompt_tokens, decode_needs(args)); }

Status check_context(const BenchArgs& args, const ModelLimits& limits) {
  const std::string prefill = "bench -p " + std::to_string(args.prompt_tokens);
  if (Status fits = check_room(limits, args.prompt_tokens, prefill); !fits) return fits;
  const std::string depth = args.depth > 0 ? " --depth " + std::to_string(args.depth) : "";
  return check_room(limits, decode_needs(args), "bench -n " + std::to_string(args.generated_tokens) + depth);
}

}  // namespace

Status bench_command(const BenchArgs& args, StandardOutput& out) {
  if (args.prompt_tokens == 0 && args.generated_tokens == 0)
    return usage_error("bench: -p 0 -n 0 leaves nothing to do");
  const auto settings = load_settings(args.engine);
  if (!settings) return settings.error();
  if (Status fits = check_context(args, model_limits(args.engine.model, *settings)); !fits) return fits;
  auto text = text_tokens(args);
  if (!text) return text.error();
  const size_t parallel = sequences_at_once(*settings);
  const InterruptScope stoppable;
  auto engine = open_engine(args.engine.model, *settings, context_needed(args), TextUse::kNone);
  if (!engine) return engine.error();
  Bench bench(args, *engine, TokenSource(std::move(*text), args.seed, engine->info().vocab_size), parallel);
  if (args.warmup != 0) {
    if (Status warm = bench.warm_up(); !warm) return warm;
  }
  std::vector<Repetition> repetitions;
  for (int32_t i = 0; i < args.repetitions; ++i) {
    auto repetition = bench.repeat();
    if (!repetition) return repetition.error();
    repetitions.push_back(std::move(*repetition));
  }
  return out.write(args.json ? json_array(repetitions) : table(args, engine->info(), parallel, repetitions));
}

}  // namespace colibri::cli
