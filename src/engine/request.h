// Request: what a caller asks for, and the checks that need no engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "sampling/sampler.h"

namespace colibri::engine {

/// The router's choice for positions first .. first + n - 1 in decoder layer `layer`: ids, weights [n, top_k]. false
/// ends the sequence.
using RoutingListener =
    std::function<bool(int layer, int64_t first, int64_t n, const int32_t* ids, const float* weights, int top_k)>;

/// What the C API allows of the most probable tokens.
inline constexpr int kMaxTopLogprobs = 32;

struct Request {
  TokenIds prompt;
  int64_t max_tokens = -1;  ///< -1: until the context is full
  sampling::SamplingParams sampling;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool keep_special = false;
  TokenIds kept_special;    ///< special tokens that appear in the text all the same
  int logprobs = -1;        ///< -1: none; k: of the token, and of the k most probable
  bool echo = false;        ///< events for the prompt's tokens, too
  std::string constraint;   ///< JSON (sampling/grammar), or empty
  std::string client;       ///< for fairness; empty: nobody's
  std::string prefix_key;   ///< prefixes are shared only among requests with the same
  RoutingListener routing;  ///< called on the engine's thread; may be empty
  /// Called when an event arrived in an empty stream, on the engine's thread; may be empty.
  std::function<void()> notify;
};

/// kUsage: empty prompt or ids outside the vocabulary. kContextOverflow: the prompt and `room` more tokens do not fit
/// into `context`; `model_context` is what the model would allow, 0 when that is not
/// known here.
Status check_prompt(const TokenIds& ids, int64_t room, int32_t vocab_size, int64_t context, int64_t model_context);

/// Everything but the prompt: sampling parameters, logit_bias ids, max_tokens. kUsage.
Status check_parameters(const Request& request, int32_t vocab_size);

}  // namespace colibri::engine
