#include "line_editor.h"

#include <histedit.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>

#include "common/signals.h"

namespace colibri::cli {
namespace {

constexpr int kHistoryLines = 1000;

// While a line is edited the terminal is raw; a signal that ends the program then must not leave it so.
class TerminalModes {
 public:
  TerminalModes() : saved_(tcgetattr(STDIN_FILENO, &modes_) == 0), hook_([this] { restore(); }) {}
  void restore() const {
    if (saved_) tcsetattr(STDIN_FILENO, TCSANOW, &modes_);
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, "\n", 1);
  }

 private:
  struct termios modes_ {};
  bool saved_;
  ExitHook hook_;
};

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(std::string text) : prompt(std::move(text)) {
    line = el_init("colibri", stdin, stdout, stderr);
    past = history_init();
    HistEvent event{};
    history(past, &event, H_SETSIZE, kHistoryLines);
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &Terminal::show_prompt);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, history, past);
    el_source(line, nullptr);  // the user's ~/.editrc
  }
  ~Terminal() {
    history_end(past);
    el_end(line);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  static char* show_prompt(EditLine* line) {
    Terminal* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }

  TerminalModes modes;
  std::string prompt;
  EditLine* line = nullptr;
  History* past = nullptr;
};

LineEditor::LineEditor(std::string prompt) {
  if (standard_input_is_terminal()) terminal_ = std::make_unique<Terminal>(std::move(prompt));
}

LineEditor::~LineEditor() = default;

Outcome<std::optional<std::string>> LineEditor::next() {
  if (!terminal_) return reader_.next();
  int size = 0;
  const char* text = el_gets(terminal_->line, &size);
  if (text == nullptr || size <= 0) return std::optional<std::string>();
  std::string line(text, static_cast<size_t>(size));
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event{};
  if (!line.empty()) history(terminal_->past, &event, H_ENTER, line.c_str());
  return std::optional(std::move(line));
}

}  // namespace colibri::cli
