// The body of POST /v1/messages (Anthropic) as a ChatRequest.
//
// Pure. Blocks become OpenAI's messages: tool results become messages of the role "tool", thinking becomes
// reasoning_content. What only Anthropic's own servers can do (images, documents, their tools) is refused by name.
#pragma once

#include "chat_request.h"

namespace colibri::server {

/// `count_only`: the body of /v1/messages/count_tokens, which needs no max_tokens.
std::optional<ApiError> read_messages_request(const json::value& body, bool count_only, ChatRequest& out);

}  // namespace colibri::server
