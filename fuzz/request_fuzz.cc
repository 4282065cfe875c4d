// Bodies of requests from any client, through the reader of each dialect: what is refused is refused with a status,
// words and a member of the client's own; what is accepted holds what the engine is promised. Input: a body.
#include <cmath>

#include "fuzz.h"
#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/messages_request.h"
#include "server/api/prepare.h"
#include "server/api/responses_request.h"

using namespace colibri::server;

namespace {

void check_error(const ApiError& error) {
  COLIBRI_CHECK(error.status >= 400 && error.status < 500);
  COLIBRI_CHECK(!error.message.empty() && !error.code.empty());
}

void check_number(const std::optional<double>& number) { COLIBRI_CHECK(!number || std::isfinite(*number)); }

void check_options(const GenerationOptions& options) {
  COLIBRI_CHECK(options.n >= 1 && options.n <= kMaxAnswers);
  COLIBRI_CHECK(options.max_tokens >= -1 && options.max_tokens <= kMaxTokens);
  COLIBRI_CHECK(options.logprobs >= -1);
  for (const auto& number : {options.temperature, options.top_p, options.min_p, options.repetition_penalty,
                             options.presence_penalty, options.frequency_penalty})
    check_number(number);
  COLIBRI_CHECK(options.stop.size() <= kMaxStops && options.logit_bias.size() <= kMaxLogitBias);
  for (const std::string& stop : options.stop)
    COLIBRI_CHECK(!stop.empty() && stop.size() <= kMaxStopBytes && stop.find('\0') == stop.npos);
  for (const colibri_logit_bias& bias : options.logit_bias)
    COLIBRI_CHECK(bias.token >= 0 && std::abs(bias.bias) <= kLogitBiasBound);
}

template <typename Request, typename Read>
void check(const json::value& body, Read read) {
  Request request;
  if (const auto error = read(body, request)) return check_error(*error);
  check_options(request.options);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  json::value body;
  if (const auto error = parse_body(std::string(colibri::fuzz::text_of(data, size)), body)) {
    check_error(*error);
    return 0;
  }
  check<ChatRequest>(body, read_chat_request);
  check<CompletionRequest>(body, read_completion_request);
  check<ChatRequest>(body, read_responses_request);
  for (const bool count_only : {false, true})
    check<ChatRequest>(body, [count_only](const json::value& from, ChatRequest& out) {
      return read_messages_request(from, count_only, out);
    });
  return 0;
}
