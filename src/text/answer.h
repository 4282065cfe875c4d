// AnswerReader: the answer of a chat model, in as text that is cut anywhere; reasoning, content and tool calls, out.
//
// Who reads an answer for a chat client: the server through colibri_answer_*, the chat command. What is given follows
// from the text alone, not from how it was cut, and comes as early as it is certain; only what may be the beginning of
// a marker is held back. Whatever is no call is content, unchanged; nothing is an error. docs/chat-formats.md has the
// rules. Thread-safety: none; a reader belongs to one answer. The options' tools are copied.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/answers/format.h"

namespace colibri::text {

struct AnswerDelta {
  enum class Kind { kReasoning, kContent, kCall, kArguments };
  Kind kind = Kind::kContent;
  int index = 0;         ///< kCall, kArguments: which call, from 0
  std::string id, name;  ///< kCall: where a call begins
  std::string text;      ///< of the other kinds; of kArguments JSON text
  bool operator==(const AnswerDelta&) const = default;
};
using AnswerDeltas = std::vector<AnswerDelta>;

/// As colibri_answer_push gives them.
Json to_json(const AnswerDeltas& deltas);

struct AnswerTool {
  std::string name;
  Json parameters;  ///< a JSON Schema, or null
};

struct AnswerOptions {
  std::vector<AnswerTool> tools;
  bool calls = true;        ///< false: calls are not looked for, what looks like one is content
  int max_calls = 1 << 20;  ///< those beyond it, and what follows them, are left out
  std::string id_seed;      ///< ids that the model does not write itself follow from it and the call's index
  std::string prompt;       ///< what the answer goes on from: its end says whether that is inside the reasoning
};

class AnswerReader {
 public:
  AnswerReader(const AnswerFormat& format, AnswerOptions options);
  AnswerReader(AnswerReader&&) noexcept;
  AnswerReader& operator=(AnswerReader&&) noexcept;
  ~AnswerReader();

  /// Appends to `deltas`; those of one kind that follow each other are one.
  void push(std::string_view text, AnswerDeltas& deltas);
  /// The end of the text: what was held back. Nothing may be pushed afterwards.
  void finish(AnswerDeltas& deltas);
  /// How many calls were read to their end; their arguments are JSON.
  int calls_closed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether an answer to this prompt begins inside the reasoning; and whether there may be reasoning at all.
bool prompt_ends_in_reasoning(const AnswerFormat& format, std::string_view prompt);
bool prompt_forbids_reasoning(const AnswerFormat& format, std::string_view prompt);

}  // namespace colibri::text
