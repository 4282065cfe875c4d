// What the text of an answer must look like for a request, in the language of docs/constraints.md, made from the data
// of the model's format.
//
// Free unless the request wants JSON or a tool call. Then reasoning goes before it as the model's prompt and form have
// it, and a forced call has the frame, the names and, as far as they are JSON, the types of the tool's schema.
// Thread-safety: a free function.
#pragma once

#include <functional>
#include <string_view>

#include "text/answer_request.h"

namespace colibri::text {

/// Null: free. kUsage that names tool_choice when this format has no call, or none for such a parameter. `is_special`
/// (may be null): which markers are special tokens of the vocabulary; those stand in literals of their own.
Result<Json> answer_constraint(const AnswerFormat& format, const AnswerRequest& request, std::string_view prompt,
                               const std::function<bool(std::string_view)>& is_special);

}  // namespace colibri::text
