// Where results go: standard output, and files that appear whole or not at all.
//
// Both report every failed write, the last one included (exit 5, with the file's name). A reader of standard output
// that went away is no failure: closed() becomes true, and the program ends quietly.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/failure.h"
#include "common/signals.h"

namespace colibri::common {

class StandardOutput {
 public:
  /// Appends to a buffer that is written when it is large or flushed.
  Status write(std::string_view text);
  Status flush();
  bool closed() const { return closed_; }
  /// Whether a person is looking.
  bool is_terminal() const;

 private:
  std::string buffer_;
  bool closed_ = false;
};

/// Written under a temporary name beside `path`; commit() gives it its name. Devices, pipes and the like are written
/// directly.
class OutputFile {
 public:
  enum class Order { kFromStartToEnd, kStartComesLast };
  /// kStartComesLast: rewrite_start() will be called; a pipe, which cannot go back, is refused (exit 2).
  static Outcome<OutputFile> create(const std::string& path, Order order = Order::kFromStartToEnd);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();  // without commit(): nothing is left behind

  Status write(std::string_view bytes);
  /// Replaces bytes at the start that were written before.
  Status rewrite_start(std::string_view bytes);
  Status commit();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  Status flush();
  std::unique_ptr<State> state_;
};

/// Makes sure that descriptors 0, 1 and 2 exist, so that no file of ours gets one of these numbers.
void open_missing_standard_streams();

/// "colibri: LINE" on standard error.
void print_error_line(std::string_view line);
/// Whether standard error is a terminal that may be drawn on.
bool error_stream_is_terminal();

}  // namespace colibri::common
