// AnswerFormat: the markup in which a chat model writes its answer, as data, and how it follows from its template.
//
// A format is a way of reasoning, ways of calling tools, and a frame around the text; each is a row of a table in
// format.cc, where a new family is added. docs/chat-formats.md shows them. Thread-safety: immutable.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answers/call_id.h"

namespace colibri::text {

/// Reasoning stands between two literals.
struct ReasoningForm {
  const char* name;
  std::string_view open, close;
  bool anywhere = false;  ///< not only where nothing but blanks was said: its literals are never plain text
};

/// The text itself may stand in a frame, which is no part of it.
struct FrameForm {
  std::string_view open, close;
};

enum class CallStyle {
  kJson,     ///< arguments are a JSON object
  kTagged,   ///< one tag per parameter, its value as it is
  kPython,   ///< keyword arguments of a Python call
  kGemma,    ///< key:value, strings between <|"|>
  kHarmony,  ///< gpt-oss: messages with channels and recipients, for reasoning and text too
};

/// One way of calling tools: [section_open] call, separator, call ... [section_close], a call being head, arguments,
/// tail. Strings are patterns (pattern.h); a tail and a section_close are lists of parts, each of which may be missing.
struct CallForm {
  const char* name;
  CallStyle style;
  std::string_view section_open, head, tail, separator, section_close;
  std::string_view json = R"({"name": "%s", "arguments": )";  ///< how $J is written
  std::string_view parameter_head = {}, parameter_tail = {};  ///< kTagged
  bool lines = false;                                         ///< kTagged: values stand on lines of their own
  bool cdata = false;                                         ///< kTagged: values may stand in <![CDATA[...]]>
  bool bare = false;            ///< nothing but the call itself marks it: only at the beginning, only known tools
  bool ends_reasoning = false;  ///< a call inside the reasoning ends it
  IdStyle ids = IdStyle::kCall;
};

struct AnswerFormat {
  const ReasoningForm* reasoning = nullptr;  ///< null: none
  const FrameForm* frame = nullptr;
  std::vector<const CallForm*> calls;  ///< in the order of trying; the first is the one that is asked for

  /// "hermes+think", "harmony", "none".
  std::string name() const;
  bool harmony() const { return !calls.empty() && calls.front()->style == CallStyle::kHarmony; }
};

/// From the template's source, and where that is silent from the tokens of the vocabulary. `has_token` may be null.
AnswerFormat detect_answer_format(std::string_view template_source,
                                  const std::function<bool(std::string_view)>& has_token);

/// The markers of a format, to be kept in the text when they are special tokens.
std::vector<std::string> markers_of(const AnswerFormat& format);

/// The form of this name, or null.
const CallForm* find_call_form(std::string_view name);
const ReasoningForm* find_reasoning_form(std::string_view name);

}  // namespace colibri::text
