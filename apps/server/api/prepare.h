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
/// Special tokens that the template wrote become their ids; nothing is added.
api::Outcome<api::TokenIds> tokenize_rendered(const ApiContext& context, const std::string& prompt);

/// The 400 for a text that cannot fit the context, by its bytes alone.
std::optional<ApiError> check_bytes(const ApiContext& context, size_t bytes, const std::string& param);

/// One JSON text, or the 400 that says where it is none.
std::optional<ApiError> parse_body(const std::string& body, json::value& out);

}  // namespace colibri::server
