// colibri chat: talk with a model.
//
// Ctrl-C while an answer is written stops that answer and keeps what there is of it; at the prompt it ends the program.

#include <csignal>

#include "commands.h"
#include "common/signals.h"
#include "generate.h"
#include "line_editor.h"
#include "preflight.h"
#include "session.h"

namespace colibri::cli {
namespace {

constexpr const char* kHelp =
    "/help         this\n"
    "/clear        forget the conversation\n"
    "/system TEXT  start again with this system message; without TEXT: with none\n"
    "/exit         end (also Ctrl-D)\n"
    "A line that ends with \\ goes on in the next one. Ctrl-C stops an answer.\n";

class Chat {
 public:
  Chat(const ChatArgs& args, api::Engine& engine, StandardOutput& out)
      : args_(args), engine_(engine), out_(out), system_(args.system), conversation_(args.system) {}

  Status loop() {
    LineEditor editor("> ");
    for (;;) {
      auto message = read_message(editor);
      if (!message) return message.error();
      if (!*message) return end();
      if ((*message)->empty()) continue;
      if (**message == "/exit" || **message == "/quit") return {};
      Status done = (*message)->starts_with("/") ? obey(**message) : answer(**message);
      if (!done) return done;
      if (Status flushed = out_.flush(); !flushed) return flushed;
      if (interrupted() != 0 && interrupted() != SIGINT) return {};  // asked to end, not just to stop the answer
      clear_interrupt();
    }
  }

 private:
  Outcome<std::optional<std::string>> read_message(LineEditor& editor) {
    std::string message;
    for (;;) {
      auto line = editor.next();
      if (!line || !*line) return line;
      message += **line;
      if (!message.ends_with('\\')) return std::optional(std::move(message));
      message.back() = '\n';
    }
  }

  // The shell's prompt should not stand behind ours.
  Status end() { return out_.write(out_.is_terminal() ? "\n" : ""); }

  Status obey(const std::string& command) {
    if (command == "/help") return out_.write(kHelp);
    if (command == "/clear") {
      conversation_ = Conversation(system_);
      return {};
    }
    if (command == "/system" || command.starts_with("/system ")) {
      system_ = command.size() > 8 ? command.substr(8) : "";
      conversation_ = Conversation(system_);
      return {};
    }
    return out_.write("unknown command " + command + "; /help lists them\n");
  }

  // A question that cannot be answered (the context is full, the template refuses) is taken back; the chat goes on.
  Status answer(const std::string& question) {
    conversation_.add("user", question);
    const auto result = generate_answer();
    if (!result) {
      conversation_.remove_last();
      if (out_.closed() || result.error().code == COLIBRI_IO) return result.error();
      print_error_line(result.error().message);
      return {};
    }
    conversation_.add("assistant", result->text);
    return out_.write(result->text.ends_with('\n') ? "" : "\n");
  }

  Outcome<Generation> generate_answer() {
    const InterruptScope stoppable;
    api::Request request = make_request(engine_, args_.sampling);
    auto prompt = conversation_.prompt(engine_.text());
    if (!prompt) return prompt.error();
    request.prompt = std::move(*prompt);
    request.max_tokens = args_.max_tokens;
    return generate(engine_, request, args_.engine.model, [this](std::string_view piece) {
      Status written = out_.write(piece);
      return written.ok() ? out_.flush() : written;
    });
  }

  const ChatArgs& args_;
  api::Engine& engine_;
  StandardOutput& out_;
  std::string system_;
  Conversation conversation_;
};

}  // namespace

Status chat_command(const ChatArgs& args, StandardOutput& out) {
  const auto settings = load_settings(args.engine);
  if (!settings) return settings.error();
  api::Request sampling;
  apply_sampling(args.sampling, sampling);
  const ModelLimits limits = model_limits(args.engine.model, *settings);
  if (Status good = api::check_request(sampling, limits.vocab_size, 0); !good) return good;
  auto engine = open_engine(args.engine.model, *settings, 0, TextUse::kEngine);
  if (!engine) return engine.error();
  if (!engine->text())
    return Error{COLIBRI_INVALID_MODEL, args.engine.model + ": has no tokenizer.json, which chat needs"};
  if (out.is_terminal()) {
    print_error_line("context of " + std::to_string(engine->info().context) + " tokens; /help for help");
  }
  return Chat(args, *engine, out).loop();
}

}  // namespace colibri::cli
