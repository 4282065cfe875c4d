// Log probabilities of the model's own distribution: softmax of the logits at temperature 1, no penalty, no filter.
//
// Called by the engine for requests that ask for them. Computed in double in the order of the ids, from + - * / alone,
// so that the same logits give the same floats on every machine; a token's value is the same float wherever it appears.
// NaN and -infinity have no probability. Thread-safety: pure functions; allocate nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/token_ids.h"

namespace colibri::sampling {

struct TokenLogprob {
  TokenId token;
  float logprob;  ///< natural logarithm
};

/// The logarithm of the sum of e^logit over all ids, from which log probabilities of several tokens follow.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits);

  /// -infinity for ids without a probability or outside the logits.
  float operator[](TokenId id) const;
  /// Fills `top` with the most probable tokens, equals by the lower id; returns how many there were. Takes
  /// O(n log k) time on ordinary logits.
  size_t top(std::span<TokenLogprob> top) const;

 private:
  std::span<const float> logits_;
  double largest_ = -std::numeric_limits<double>::infinity();
  double log_sum_ = 0;  // of e^(logit - largest)
};

}  // namespace colibri::sampling
