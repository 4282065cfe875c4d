// AnswerFormat: how an answer is written, as one body or as a stream of frames. One per dialect, one object per
// request.
//
// Called by Generation on the connection's strand, in the order begin, then any of progress, piece and ping, then
// finish for every choice, then end; or error at any time after begin. Every function returns whole frames, perhaps
// none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "answer.h"
#include "server/errors.h"

namespace colibri::server {

/// What is the same in all chunks of an answer.
struct AnswerHead {
  std::string id;  ///< without the dialect's prefix
  std::string model;
  int64_t created = 0;  ///< unix seconds
  size_t n_choices = 1;
  bool include_usage = false;
  bool logprobs = false;
  json::object echo{};  ///< members of the request that the answer repeats
};

struct PromptProgress {
  int64_t total = 0, cached = 0, processed = 0;
  double seconds = 0;
  int64_t queue_position = -1;  ///< requests ahead; -1: not waiting
};

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual HttpResponse body(const std::vector<Choice>& choices, const Usage& usage, const json::object& extras) = 0;

  virtual std::string begin(const Usage& so_far) = 0;
  virtual std::string progress(const PromptProgress&) { return {}; }
  /// `timings`: null unless they are wanted with every piece.
  virtual std::string piece(int choice, const std::vector<Delta>& deltas, const std::vector<TokenLogprob>& logprobs,
                            const json::value& timings) = 0;
  /// `logprobs`: those that no piece had. `extras`: members of the last choice's chunk, else empty.
  virtual std::string finish(const Choice& choice, const std::vector<TokenLogprob>& logprobs,
                             const json::object& extras) = 0;
  virtual std::string end(const Usage& usage) = 0;
  virtual std::string ping() { return ": keep-alive\n\n"; }
  virtual std::string error(const ApiError& error) = 0;
  /// Instead of an answer, before anything was sent.
  virtual HttpResponse refusal(const ApiError& error) const { return error_answer(error); }
};

/// "data: JSON\n\n"
std::string data_frame(const json::value& value);
/// "event: NAME\ndata: JSON\n\n"
std::string named_frame(std::string_view name, const json::value& value);

std::unique_ptr<AnswerFormat> chat_format(AnswerHead head, const TokenTexts& texts);
std::unique_ptr<AnswerFormat> completion_format(AnswerHead head, const TokenTexts& texts);
std::unique_ptr<AnswerFormat> messages_format(AnswerHead head);
std::unique_ptr<AnswerFormat> responses_format(AnswerHead head);

/// Anthropic's envelope.
std::string anthropic_error(const ApiError& error);
/// The same as an answer; a full queue is its 529.
HttpResponse anthropic_refusal(const ApiError& error);

/// "stop", "length", "tool_calls"
std::string_view openai_finish_reason(FinishReason reason);
/// {"prompt_tokens", "completion_tokens", "total_tokens", ...}
json::object openai_usage(const Usage& usage);

}  // namespace colibri::server
