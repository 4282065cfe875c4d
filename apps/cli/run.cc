// colibri run: continue a prompt.

#include "commands.h"
#include "common/input.h"
#include "common/signals.h"
#include "generate.h"
#include "preflight.h"
#include "session.h"
#include "trace.h"

namespace colibri::cli {
namespace {

Outcome<std::string> read_prompt(const RunArgs& args) {
  if (args.prompt && !args.prompt_file.empty()) return usage_error("-p and -f are two prompts; give one of them");
  if (args.prompt) return *args.prompt;
  if (!args.prompt_file.empty()) return read_file(args.prompt_file);
  if (!standard_input_is_terminal()) return read_standard_input();
  return usage_error("no prompt: give -p TEXT or -f FILE, or pipe it in; to talk, use `colibri chat`");
}

// A message in the chat template, or the raw prompt with what the model wants around it.
Outcome<TokenIds> prompt_ids(const RunArgs& args, const api::TextView& text, const std::string& prompt) {
  if (args.chat) {
    Conversation conversation(args.system);
    conversation.add("user", prompt);
    return conversation.prompt(text);
  }
  auto ids = text.tokenize(prompt, tokenize_flags(true));
  if (ids && ids->empty()) return usage_error("the prompt is empty, and this model has no token to begin a text with");
  return ids;
}

// What the context must hold; 0 when the answer has no limit.
int64_t tokens_in_all(const RunArgs& args, const TokenIds& prompt) {
  return args.max_tokens < 0 ? 0 : static_cast<int64_t>(prompt.size()) + args.max_tokens;
}

// What the library would say after the model was loaded. The model's own sampling defaults are not looked at.
Status check_run(const RunArgs& args, const TokenIds& prompt, const Settings& settings) {
  const ModelLimits limits = model_limits(args.engine.model, settings);
  api::Request request;
  apply_sampling(args.sampling, request);
  request.prompt = prompt;
  request.max_tokens = args.max_tokens;
  return api::check_request(request, limits.vocab_size, limits.context);
}

// Before the model is loaded, so that a path that cannot be written is not found out afterwards.
Outcome<std::optional<OutputFile>> open_output(const std::string& path) {
  if (path.empty()) return std::optional<OutputFile>();
  auto file = OutputFile::create(path);
  if (!file) return file.error();
  return std::optional(std::move(*file));
}

std::string result_json(const Generation& result) {
  json::array tokens(result.tokens.begin(), result.tokens.end());
  const json::object all{{"text", result.text},
                         {"tokens", std::move(tokens)},
                         {"finish_reason", result.finish_reason},
                         {"stats", result.stats}};
  return dump_json(all) + "\n";
}

// A terminal's next prompt should start on a line of its own; a pipe gets the text and nothing else.
Status end_line(const Generation& result, StandardOutput& out) {
  const bool open_line = out.is_terminal() && !result.text.ends_with('\n');
  return out.write(open_line ? "\n" : "");
}

}  // namespace

Status run_command(const RunArgs& args, StandardOutput& out) {
  const auto settings = load_settings(args.engine);
  if (!settings) return settings.error();
  const auto prompt = read_prompt(args);
  if (!prompt) return prompt.error();
  const auto text = api::Text::open(args.engine.model);
  if (!text) return text.error();
  const auto ids = prompt_ids(args, text->view(), *prompt);
  if (!ids) return ids.error();
  if (Status good = check_run(args, *ids, *settings); !good) return good;
  auto stats_file = open_output(args.stats_file);
  if (!stats_file) return stats_file.error();
  auto trace_file = open_output(args.trace_file);
  if (!trace_file) return trace_file.error();

  const InterruptScope stoppable;
  auto engine = open_engine(args.engine.model, *settings, tokens_in_all(args, *ids), TextUse::kEngine);
  if (!engine) return engine.error();
  api::Request request = make_request(*engine, args.sampling);
  request.prompt = *ids;
  request.max_tokens = args.max_tokens;
  std::optional<Trace> trace;
  if (*trace_file) request.routing = trace.emplace(std::move(**trace_file), *engine, args.engine.model).callback();
  const auto result = generate(*engine, request, args.engine.model, [&](std::string_view piece) -> Status {
    if (args.json) return {};
    if (Status written = out.write(piece); !written) return written;
    return out.flush();
  });
  if (trace && !trace->status()) return trace->status();  // a trace that cannot be written ended the generation
  if (!result) return result.error();
  if (Status traced = trace ? trace->finish() : Status(); !traced) return traced;

  if (Status printed = args.json ? out.write(result_json(*result)) : end_line(*result, out); !printed) return printed;
  if (Status flushed = out.flush(); !flushed) return flushed;
  if (!*stats_file) return {};
  if (Status written = (*stats_file)->write(dump_json(result->stats) + "\n"); !written) return written;
  return (*stats_file)->commit();
}

}  // namespace colibri::cli
