// The body of POST /v1/responses as a ChatRequest.
//
// Pure. Items of the input become OpenAI's messages. Nothing is stored, so what refers to an earlier response is
// refused.
#pragma once

#include "chat_request.h"

namespace colibri::server {

std::optional<ApiError> read_responses_request(const json::value& body, ChatRequest& out);

}  // namespace colibri::server
