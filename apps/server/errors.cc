#include "errors.h"

#include "common/json.h"

namespace colibri::server {
namespace {

void append_or_null(std::string& out, const std::string& text) {
  text.empty() ? static_cast<void>(out += "null") : common::append_json_string(out, text);
}

}  // namespace

std::string openai_error_type(const ApiError& error) {
  if (!error.type.empty()) return error.type;
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    default:
      return error.status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string openai_error(const ApiError& error) {
  std::string body = R"({"error": {"message": )";
  common::append_json_string(body, error.message);
  body += R"(, "type": )";
  common::append_json_string(body, openai_error_type(error));
  body += R"(, "param": )";
  append_or_null(body, error.param);
  body += R"(, "code": )";
  append_or_null(body, error.code);
  return body += "}}";
}

HttpResponse error_answer(const ApiError& error, ErrorShape shape) {
  HttpResponse answer;
  answer.status = error.status;
  answer.body = shape(error);
  if (error.retry_after_s > 0) answer.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

}  // namespace colibri::server
