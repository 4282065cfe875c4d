// What the program reads besides models: prompts, token lists, standard input.
#pragma once

#include <optional>
#include <string>

#include "common/failure.h"

namespace colibri::common {

/// The whole file; "-" is standard input. Exit 2 when it cannot be opened or is a folder, 5 when reading fails.
Outcome<std::string> read_file(const std::string& path);
inline Outcome<std::string> read_standard_input() { return read_file("-"); }

bool standard_input_is_terminal();

/// Standard input line by line. Lines end with exactly one line feed, which is not part of them; the last one may lack
/// it.
class LineReader {
 public:
  /// Nothing at the end of the input.
  Outcome<std::optional<std::string>> next();
  /// Number of the line that next() gave last, from 1.
  int64_t line() const { return line_; }
  /// "line 3 of standard input".
  std::string where() const { return "line " + std::to_string(line_) + " of standard input"; }
  /// Whether next() would have to wait for more input, so that what was written should be flushed.
  bool would_read() const { return buffer_.find('\n', position_) == std::string::npos; }

 private:
  Outcome<bool> fill();  // false at the end
  std::string buffer_;
  size_t position_ = 0;
  int64_t line_ = 0;
};

}  // namespace colibri::common
