// What becomes of a sequence's events on their way into an answer: deltas, log probabilities, counts.
//
// Made by Generation, written down by an AnswerFormat. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/json.h"

namespace colibri::server {

namespace json = common::json;

/// A piece of an answer.
struct Delta {
  enum class Kind : uint8_t { kContent, kReasoning, kCallBegins, kCallArguments };
  Kind kind = Kind::kContent;
  std::string text;      ///< content, reasoning, or JSON text of arguments
  int call = 0;          ///< of kCall...: which call, from 0
  std::string id, name;  ///< kCallBegins
};

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0;  ///< NaN: none
  std::vector<std::pair<int32_t, float>> top;
  std::string text;  ///< what it added to the shown text
};

enum class FinishReason : uint8_t { kNone, kStop, kStopString, kLength, kToolCalls };

struct ToolCall {
  std::string id, name, arguments;
};

/// One whole answer, as far as it has come.
struct Choice {
  int index = 0;
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  std::vector<TokenLogprob> logprobs;
  FinishReason finish = FinishReason::kNone;
  std::string stop;  ///< kStopString: which
};

/// Seconds, of the slowest answer where there are several.
struct Timings {
  double queued_s = 0;  ///< from submit to the first work
  double prompt_s = 0;  ///< from there to the first token
  double answer_s = 0;  ///< from the first token to the last
};

struct Usage {
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
  Timings timings;
};

void append_delta(const Delta& delta, Choice& choice);

/// {"cache_n", "prompt_n", "prompt_ms", ...} as llama.cpp's server writes it.
json::object timings_json(const Usage& usage);

/// The bytes of single tokens, for lists of log probabilities.
class TokenTexts {
 public:
  virtual ~TokenTexts() = default;
  virtual std::string bytes_of(int32_t token) const = 0;
};

bool is_utf8(std::string_view bytes);
/// Bytes that are no UTF-8 become U+FFFD.
std::string to_utf8(std::string_view bytes);
/// How many bytes at the end are the beginning of a character.
size_t open_character(std::string_view bytes);
size_t count_characters(std::string_view utf8);

/// As JSON writes it: the shortest digits of the float; -9999 for minus infinity, as OpenAI has it; null for NaN.
json::value logprob_json(float logprob);

}  // namespace colibri::server
