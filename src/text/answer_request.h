// AnswerRequest: what a chat request of OpenAI's form says about its answer: tools, tool_choice, parallel_tool_calls,
// response_format.
//
// Checked once, when the request arrives, so that nothing is computed for one that makes no sense. Thread-safety: plain
// values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/answer.h"

namespace colibri::text {

struct AnswerRequest {
  enum class Choice { kNone, kAuto, kRequired };
  std::vector<AnswerTool> tools;  ///< those that may be called; with a named function only that one
  Choice choice = Choice::kAuto;
  bool parallel = true;
  bool json = false;  ///< the text must be a JSON object, or what `schema` says
  Json schema;        ///< null: any object

  bool may_call() const { return !tools.empty() && choice != Choice::kNone; }
  bool must_call() const { return choice == Choice::kRequired; }
  /// For a reader of the answer.
  AnswerOptions options(std::string id_seed, std::string prompt) const;
};

/// kUsage with the name of the member that makes no sense.
Result<AnswerRequest> parse_answer_request(const Json& request);

}  // namespace colibri::text
