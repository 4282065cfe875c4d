// Sampler: logits -> token id. Penalties, filters, a seeded draw.
//
// Temperature 0 is the argmax of the raw logits and looks at nothing else. Otherwise, in this order: logit_bias,
// repetition penalty, presence and frequency penalties, temperature, top_k, top_p, min_p, one draw. Ties go to the
// lower token id. Same seed, same logits, same tokens, on every machine: generator and exp are our own, sums have a
// fixed order. Thread-safety: one sequence owns one sampler.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"

namespace colibri::sampling {

struct SamplingParams {
  double temperature = 1.0;         ///< 0: greedy
  int32_t top_k = 0;                ///< 0: off
  double top_p = 1.0;               ///< 1: off
  double min_p = 0.0;               ///< 0: off
  double repetition_penalty = 1.0;  ///< over prompt and answer; 1: off
  double presence_penalty = 0.0;    ///< over the answer, as OpenAI defines it
  double frequency_penalty = 0.0;
  uint64_t seed = 0;
  std::vector<std::pair<TokenId, double>> logit_bias;
};

/// kUsage names the parameter and its range (NaN and infinities are out of range).
Status validate(const SamplingParams& params);

/// Index of the largest logit, the lowest index among equals. NaN is never chosen unless everything is NaN (then -1).
TokenId argmax(std::span<const float> logits);

class Sampler {
 public:
  /// `vocab_size` ids may be sampled (padded ids beyond it never are).
  Sampler(SamplingParams params, int32_t vocab_size);
  /// Tells the sampler about prompt tokens, for the repetition penalty.
  void observe_prompt(std::span<const TokenId> prompt);
  /// Chooses and remembers the next token. kFailed when the logits hold no finite value. Allocates nothing.
  Result<TokenId> sample(std::span<const float> logits);

 private:
  /// Logit, later its share (the best has 1).
  struct Candidate {
    double value;
    TokenId id;
  };

  void collect(std::span<const float> logits);
  TokenId draw();
  template <typename Better>
  void keep_nucleus(Better better);
  uint64_t next_random();

  SamplingParams params_;
  int32_t vocab_size_;
  uint64_t state_[4];
  std::vector<int32_t> answer_counts_;  // per id
  std::vector<bool> seen_;              // per id, in prompt or answer
  std::vector<double> bias_;            // per id
  std::vector<Candidate> candidates_;   // scratch
};

}  // namespace colibri::sampling
