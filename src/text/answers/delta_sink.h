// DeltaSink: where the readers of the formats put what they found; merges neighbours and names the calls.
//
// AnswerText is the text of one kind (reasoning, content) without the blanks that belong to the markers around it.
// Thread-safety: none; both belong to one answer.
#pragma once

#include <string>
#include <string_view>

#include "text/answer.h"

namespace colibri::text {

class DeltaSink {
 public:
  explicit DeltaSink(const AnswerOptions& options) : options_(options) {}
  /// Where what is found goes from now on.
  void write_to(AnswerDeltas& deltas) { deltas_ = &deltas; }

  void text(AnswerDelta::Kind kind, std::string_view text);
  /// `id`: the model's own; one is made when it is empty or not of the style.
  void begin_call(std::string_view name, std::string_view id, IdStyle style);
  void arguments(std::string_view json);
  void close_call() { ++closed_; }

  const AnswerOptions& options() const { return options_; }
  int calls() const { return calls_; }
  int closed() const { return closed_; }
  bool full() const { return calls_ >= options_.max_calls; }
  /// The parameters of a tool of the request; null when it has none of this name.
  const AnswerTool* find_tool(std::string_view name) const;

 private:
  const AnswerOptions& options_;
  AnswerDeltas* deltas_ = nullptr;
  int calls_ = 0, closed_ = 0;
};

class AnswerText {
 public:
  AnswerText(DeltaSink& sink, AnswerDelta::Kind kind, bool after_marker)
      : sink_(sink), kind_(kind), after_marker_(after_marker) {}
  /// Blanks at the end wait for what follows them.
  void say(std::string_view text);
  /// A marker stands here: the blanks before it and the line feeds behind it are its own. Where text goes on after
  /// text, the blanks before the marker separate them, or `separator` when there were none.
  void marker(std::string_view separator = {});
  /// The marker turned out to be none of its kind: the text goes on as it stands.
  void go_on();
  void finish();
  bool said() const { return said_; }
  /// Nothing but blanks since the beginning or the last marker.
  bool at_start() const { return after_marker_ || !said_; }

 private:
  DeltaSink& sink_;
  AnswerDelta::Kind kind_;
  std::string blanks_, gap_;
  bool said_ = false, after_marker_;
};

/// Reads one answer in one format.
class FormatReader {
 public:
  FormatReader() = default;
  FormatReader(const FormatReader&) = delete;
  FormatReader& operator=(const FormatReader&) = delete;
  virtual ~FormatReader() = default;
  /// Whole characters of valid UTF-8; `final`: nothing follows.
  virtual void read(std::string_view text, bool final) = 0;
};

std::unique_ptr<FormatReader> make_markup_reader(const AnswerFormat& format, DeltaSink& sink);
std::unique_ptr<FormatReader> make_harmony_reader(DeltaSink& sink);

}  // namespace colibri::text
