// colibri logits: logits and routing of given tokens, for comparing with other engines.

#include <algorithm>
#include <map>

#include "commands.h"
#include "generate.h"
#include "preflight.h"
#include "safetensors_writer.h"
#include "session.h"
#include "tokens_file.h"

namespace colibri::cli {
namespace {

// The routing of one MoE layer for one prompt, [n, top_k] each.
struct Routing {
  int32_t top_k = 0;
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

class LogitsFile {
 public:
  static Outcome<LogitsFile> create(OutputFile output, api::Engine& engine, size_t n_prompts) {
    const colibri_info info = engine.info();
    const auto per_prompt = 2 + 2 * static_cast<size_t>(info.n_moe_layers);
    constexpr size_t kLongestName = 48;  // "router.PROMPT.LAYER.weights" with 10 digits each
    auto writer = SafetensorsWriter::create(std::move(output), n_prompts * per_prompt, kLongestName);
    if (!writer) return writer.error();
    return LogitsFile(std::move(*writer), engine, info.vocab_size);
  }

  // Logits go straight to the file; routing waits in memory until they are complete.
  Status add_prompt(size_t index, const TokenIds& ids) {
    const auto n = static_cast<int64_t>(ids.size());
    writer_.begin("logits." + std::to_string(index), "F32", {n, vocab_size_});
    std::map<int32_t, Routing> routing;
    Status written;
    int32_t expected = 0;
    api::EvaluateCallbacks callbacks;
    callbacks.logits = [&](int32_t first, int32_t rows, std::span<const float> logits, int32_t) {
      if (first != expected) written = run_error("logits came out of order");
      expected = first + rows;
      if (written.ok()) written = writer_.append(logits.data(), logits.size_bytes());
      return written.ok() && interrupted() == 0;
    };
    callbacks.routing = [&](int32_t layer, int32_t first, int32_t rows, const int32_t* experts, const float* weights,
                            int32_t top_k) {
      store(routing[layer], first, rows, experts, weights, top_k);
      return interrupted() == 0;
    };
    callbacks.stop = [] { return interrupted() != 0; };
    const Status evaluated = engine_->evaluate(ids, callbacks);
    if (!written) return written;
    if (!evaluated) return with_context(evaluated.error(), "prompt " + std::to_string(index));
    return write_routing(index, n, routing);
  }

  Status add_greedy(size_t index, const TokenIds& ids, int32_t n, const std::string& model) {
    api::Request request;  // temperature 0 looks at nothing else
    request.prompt = ids;
    request.max_tokens = n;
    request.temperature = 0;
    request.ignore_eos = true;
    const auto result = generate(*engine_, request, model, [](std::string_view) { return Status(); });
    if (!result) return with_context(result.error(), "prompt " + std::to_string(index));
    if (interrupted() != 0) return Error{COLIBRI_CANCELLED, "interrupted"};
    if (result->tokens.size() != static_cast<size_t>(n)) {
      return run_error("prompt " + std::to_string(index) + ": " + std::to_string(result->tokens.size()) + " of " +
                       std::to_string(n) + " tokens came (" + result->finish_reason + "); is the context too small?");
    }
    writer_.begin("greedy." + std::to_string(index), "I32", {n});
    return writer_.append(result->tokens.data(), result->tokens.size() * sizeof(int32_t));
  }

  Status finish() { return writer_.finish(); }

 private:
  LogitsFile(SafetensorsWriter writer, api::Engine& engine, int32_t vocab_size)
      : writer_(std::move(writer)), engine_(&engine), vocab_size_(vocab_size) {}

  static void store(Routing& routing, int32_t first, int32_t rows, const int32_t* ids, const float* weights,
                    int32_t top_k) {
    routing.top_k = top_k;
    const size_t begin = static_cast<size_t>(first) * static_cast<size_t>(top_k);
    const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(top_k);
    routing.ids.resize(std::max(routing.ids.size(), begin + count));
    routing.weights.resize(routing.ids.size());
    std::copy_n(ids, count, routing.ids.begin() + static_cast<ptrdiff_t>(begin));
    std::copy_n(weights, count, routing.weights.begin() + static_cast<ptrdiff_t>(begin));
  }

  Status write_routing(size_t index, int64_t n, const std::map<int32_t, Routing>& routing) {
    for (const auto& [layer, values] : routing) {
      const std::string name = "router." + std::to_string(index) + "." + std::to_string(layer);
      writer_.begin(name + ".ids", "I32", {n, values.top_k});
      Status written = writer_.append(values.ids.data(), values.ids.size() * sizeof(int32_t));
      if (!written) return written;
      writer_.begin(name + ".weights", "F32", {n, values.top_k});
      written = writer_.append(values.weights.data(), values.weights.size() * sizeof(float));
      if (!written) return written;
    }
    return {};
  }

  SafetensorsWriter writer_;
  api::Engine* engine_;
  int64_t vocab_size_;
};

int64_t longest(const std::vector<TokenIds>& prompts) {
  size_t size = 0;
  for (const TokenIds& ids : prompts) size = std::max(size, ids.size());
  return static_cast<int64_t>(size);
}

Status check_prompts(const LogitsArgs& args, const std::vector<TokenIds>& prompts, const ModelLimits& limits) {
  if (Status known = check_ids(prompts, limits.vocab_size, args.tokens_file); !known) return known;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto size = static_cast<int64_t>(prompts[i].size());
    std::string what = args.tokens_file + ": prompt " + std::to_string(i) + " of " + std::to_string(size) + " tokens";
    if (args.continue_tokens > 0) what += " with --continue " + std::to_string(args.continue_tokens);
    if (Status fits = check_room(limits, size + args.continue_tokens, what); !fits) return fits;
  }
  return {};
}

}  // namespace

Status logits_command(const LogitsArgs& args, StandardOutput&) {
  const auto settings = load_settings(args.engine);
  if (!settings) return settings.error();
  const auto prompts = read_tokens_file(args.tokens_file, false);
  if (!prompts) return prompts.error();
  const ModelLimits limits = model_limits(args.engine.model, *settings);
  if (Status good = check_prompts(args, *prompts, limits); !good) return good;
  auto output = OutputFile::create(args.out_file, OutputFile::Order::kStartComesLast);
  if (!output) return output.error();
  const InterruptScope stoppable;
  auto engine = open_engine(args.engine.model, *settings, longest(*prompts) + args.continue_tokens, TextUse::kNone);
  if (!engine) return engine.error();
  auto file = LogitsFile::create(std::move(*output), *engine, prompts->size());
  if (!file) return file.error();
  for (size_t i = 0; i < prompts->size(); ++i) {
    const TokenIds& ids = (*prompts)[i];
    if (Status added = file->add_prompt(i, ids); !added) return added;
    if (args.continue_tokens == 0) continue;
    if (Status added = file->add_greedy(i, ids, args.continue_tokens, args.engine.model); !added) return added;
  }
  return file->finish();
}

}  // namespace colibri::cli
