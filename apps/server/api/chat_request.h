// ChatRequest: a chat in any dialect, checked, as the template and the engine take it.
//
// /v1/chat/completions is read here; /v1/messages (messages_request.h) and /v1/responses (responses_request.h) become
// the same. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generation_options.h"

namespace colibri::server {

struct ChatRequest {
  GenerationOptions options;
  /// What colibri_apply_template and colibri_answer_open take: messages, tools, tool_choice, response_format ...
  json::object template_request;
  json::object echo;                 ///< members that the answer repeats
  std::vector<std::string> unknown;  ///< members that were ignored
};

/// Body of POST /v1/chat/completions.
std::optional<ApiError> read_chat_request(const json::value& body, ChatRequest& out);

/// messages, tools, chat_template_kwargs ...: what /apply-template and /tokenize take, too.
void read_template_members(Fields& fields, json::object& out);

/// Sets a variable of the template, unless the client has set it.
void default_template_variable(json::object& template_request, std::string_view name, const json::value& value);

/// The body as an object, or the 400 that says it is none.
std::optional<ApiError> expect_object(const json::value& body);

}  // namespace colibri::server
