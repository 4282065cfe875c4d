// colibri perplexity: exp of the mean negative log likelihood, over windows that do not overlap.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "commands.h"
#include "common/input.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/signals.h"
#include "preflight.h"
#include "session.h"
#include "tokens_file.h"

namespace colibri::cli {
namespace {

// -log softmax(logits)[target], in double.
double negative_log_likelihood(std::span<const float> logits, int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<size_t>(target)]);
}

class Scorer {
 public:
  Scorer(api::Engine& engine, int32_t score_from) : engine_(engine), score_from_(score_from) {}

  // Logits at position p predict the token at p + 1.
  Status add_window(std::span<const int32_t> ids) {
    api::EvaluateCallbacks callbacks;
    callbacks.logits = [&](int32_t first, int32_t rows, std::span<const float> logits, int32_t vocab_size) {
      for (int32_t row = 0; row < rows; ++row) {
        const auto target = static_cast<size_t>(first) + static_cast<size_t>(row) + 1;
        if (target >= ids.size() || target < static_cast<size_t>(score_from_)) continue;
        const auto width = static_cast<size_t>(vocab_size);
        sum_ += negative_log_likelihood(logits.subspan(static_cast<size_t>(row) * width, width), ids[target]);
        ++scored_;
      }
      return interrupted() == 0;
    };
    callbacks.stop = [] { return interrupted() != 0; };
    ++windows_;
    return engine_.evaluate(ids, callbacks);
  }

  int64_t scored() const { return scored_; }
  int64_t windows() const { return windows_; }
  double mean() const { return sum_ / static_cast<double>(scored_); }

 private:
  api::Engine& engine_;
  int32_t score_from_;
  double sum_ = 0;
  int64_t scored_ = 0, windows_ = 0;
};

Outcome<std::vector<TokenIds>> read_tokens(const PerplexityArgs& args) {
  if (!args.tokens_file.empty()) return read_tokens_file(args.tokens_file, true);
  if (args.text_file.empty() && standard_input_is_terminal())
    return usage_error("no text: give -f FILE, or --tokens FILE with token ids, or pipe it in");
  const auto content = read_file(args.text_file.empty() ? "-" : args.text_file);
  if (!content) return content.error();
  const auto text = api::Text::open(args.engine.model);
  if (!text) return text.error();
  auto ids = text->view().tokenize(*content, tokenize_flags(args.special));
  if (!ids) return ids.error();
  return std::vector<TokenIds>{std::move(*ids)};
}

size_t total_tokens(const std::vector<TokenIds>& texts) {
  size_t total = 0;
  for (const TokenIds& ids : texts) total += ids.size();
  return total;
}

int64_t longest_window(const std::vector<TokenIds>& texts, int32_t window) {
  size_t longest = 0;
  for (const TokenIds& ids : texts) longest = std::max(longest, ids.size());
  return std::min<int64_t>(window, static_cast<int64_t>(longest));
}

// How the input is called in messages.
std::string source_of(const PerplexityArgs& args) {
  if (!args.tokens_file.empty()) return args.tokens_file;
  return args.text_file.empty() || args.text_file == "-" ? "standard input" : args.text_file;
}

Status check_texts(const PerplexityArgs& args, const std::vector<TokenIds>& texts, const ModelLimits& limits) {
  const std::string source = source_of(args);
  if (Status known = check_ids(texts, limits.vocab_size, source); !known) return known;
  const int64_t longest = longest_window(texts, args.window);
  if (longest <= args.score_from) return usage_error(source + ": too short, no token can be scored");
  return check_room(limits, longest, source + " in windows of " + std::to_string(args.window));
}

Status check_result(const PerplexityArgs& args, const Scorer& scorer) {
  if (std::isfinite(std::exp(scorer.mean()))) return {};
  char mean[32];
  std::snprintf(mean, sizeof(mean), "%.6g", scorer.mean());
  return run_error("the perplexity is no finite number (mean negative log likelihood " + std::string(mean) +
                   "); check the weights with `colibri validate " + args.engine.model + "`");
}

Status score_texts(const std::vector<TokenIds>& texts, size_t window, Scorer& scorer) {
  Progress progress("perplexity", Progress::Unit::kTokens);
  const size_t total = total_tokens(texts);
  size_t done = 0;
  for (const TokenIds& ids : texts) {
    for (size_t begin = 0; begin < ids.size(); begin += window) {
      const size_t size = std::min(window, ids.size() - begin);
      if (size >= 2) {
        if (Status added = scorer.add_window(std::span(ids).subspan(begin, size)); !added) return added;
      }
      progress.update(done += size, total);
    }
  }
  return {};
}

std::string report(const PerplexityArgs& args, const Scorer& scorer, size_t tokens) {
  const double perplexity = std::exp(scorer.mean());
  if (args.json) {
    return dump_json(json::object{{"perplexity", perplexity},
                                  {"mean_negative_log_likelihood", scorer.mean()},
                                  {"scored_tokens", scorer.scored()},
                                  {"tokens", tokens},
                                  {"windows", scorer.windows()},
                                  {"window", args.window},
                                  {"score_from", args.score_from}}) +
           "\n";
  }
  char line[160];
  std::snprintf(line, sizeof(line),
                "perplexity %.4f over %lld scored tokens (%lld windows of %d, scored from position %d)\n", perplexity,
                static_cast<long long>(scorer.scored()), static_cast<long long>(scorer.windows()), args.window,
                args.score_from);
  return line;
}

}  // namespace

Status perplexity_command(const PerplexityArgs& args, StandardOutput& out) {
  if (!args.text_file.empty() && !args.tokens_file.empty()) return usage_error("-f and --tokens exclude each other");
  if (args.score_from >= args.window) return usage_error("--score-from must be smaller than --window");
  const auto settings = load_settings(args.engine);
  if (!settings) return settings.error();
  const auto texts = read_tokens(args);
  if (!texts) return texts.error();
  const ModelLimits limits = model_limits(args.engine.model, *settings);
  if (Status good = check_texts(args, *texts, limits); !good) return good;
  const InterruptScope stoppable;
  const int64_t longest = longest_window(*texts, args.window);
  auto engine = open_engine(args.engine.model, *settings, longest, TextUse::kNone);
  if (!engine) return engine.error();
  Scorer scorer(*engine, args.score_from);
  if (Status scored = score_texts(*texts, static_cast<size_t>(args.window), scorer); !scored) return scored;
  if (Status finite = check_result(args, scorer); !finite) return finite;
  return out.write(report(args, scorer, total_tokens(*texts)));
}

}  // namespace colibri::cli
