// From a checked request to a plan that the engine can work on: template, tokenizer, the reader of the answer.
//
// Runs on a preparing thread, since long prompts take their time. REQUIRES: the engine is there.
#pragma once

#include <optional>
#include <string>

#include "chat_request.h"
#include "completion_request.h"
#include "generation.h"

namespace colibri::server {

/// What the plan needs to know of the HTTP request.
struct Caller {
  std::string id, client;
};

using MakeChatFormat = std::unique_ptr<AnswerFormat> (*)(AnswerHead head, const TokenTexts& texts);

std::optional<ApiError> plan_chat(ApiContext& context, const Caller& caller, ChatRequest request, MakeChatFormat format,
                                  GenerationPlan& plan);
std::optional<ApiError> plan_completion(ApiContext& context, const Caller& caller, CompletionRequest request,
                                        GenerationPlan& plan);

/// The prompt text of a chat; the error names the template.
api::Outcome<std::string> render_chat(const ApiContext& context, const json::object& template_request);
/// A client's text as tokens, `flags` as colibri_tokenize has them; a 400 that blames `param` where it cannot fit the
/// context, by its bytes alone, or is no text. REQUIRES: there is a tokenizer.
std::optional<ApiError> tokenize(const ApiContext& context, const std::string& text, uint32_t flags,
                                 const std::string& param, api::TokenIds& out);

/// One JSON text, or the 400 that says where it is none.
std::optional<ApiError> parse_body(const std::string& body, json::value& out);

}  // namespace colibri::server
