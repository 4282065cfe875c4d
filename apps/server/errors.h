// Errors as HTTP answers: always JSON, in OpenAI's shape unless the route has one of its own (Router::shape_errors).
#pragma once

#include <string>

#include "http.h"

namespace colibri::server {

struct ApiError {
  int status = 500;
  std::string message;    ///< one line: what, the numbers, what to do next
  std::string code;       ///< "context_length_exceeded"; empty: null
  std::string param;      ///< the member of the request that is to blame; empty: null
  std::string type;       ///< empty: what the status says, "invalid_request_error" ...
  int retry_after_s = 0;  ///< > 0: a Retry-After header
};

/// The body of an error: {"error": {...}} and whatever else a shape has around it.
using ErrorShape = std::string (*)(const ApiError& error);

/// The type of an error in OpenAI's words.
std::string openai_error_type(const ApiError& error);
/// {"error": {"message", "type", "param", "code"}}
std::string openai_error(const ApiError& error);

HttpResponse error_answer(const ApiError& error, ErrorShape shape = openai_error);

}  // namespace colibri::server
