// One line from a person: with editing and history on a terminal, plainly otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/failure.h"
#include "common/input.h"

namespace colibri::cli {

using namespace common;

class LineEditor {
 public:
  /// `prompt` is shown on a terminal only.
  explicit LineEditor(std::string prompt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// The next line without its line feed; nothing at the end of the input (Ctrl-D).
  Outcome<std::optional<std::string>> next();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null when standard input is no terminal
  LineReader reader_;
};

}  // namespace colibri::cli
