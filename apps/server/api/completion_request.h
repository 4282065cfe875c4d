// CompletionRequest: the body of POST /v1/completions, checked.
//
// Pure: prompts that are text become tokens later (a tokenizer is needed); prompts of token ids stay exactly as they
// are.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "generation_options.h"

namespace colibri::server {

constexpr size_t kMaxPrompts = 512;

struct CompletionRequest {
  GenerationOptions options;
  std::vector<std::variant<std::string, api::TokenIds>> prompts;
  std::string constraint;  ///< as in colibri_request
  std::vector<std::string> unknown;
};

std::optional<ApiError> read_completion_request(const json::value& body, CompletionRequest& out);

/// What colibri_request.constraint says for a response_format in OpenAI's form; empty for free text.
std::string constraint_of(const json::value& response_format);

}  // namespace colibri::server
