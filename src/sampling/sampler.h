// Sampler: logits -> token id. Penalties, filters, a seeded draw.
//
// Temperature 0 is greedy and looks at nothing else: argmax of the logits as they come, no bias, no penalty, no filter.
// Otherwise, in this order: logit_bias; repetition, presence and frequency penalties; temperature; top_k; top_p (of
// what top_k left, renormalised); min_p; draw. Each filter keeps at least one token. Ties go to the lower token id
// everywhere. Same seed, same logits, same tokens: the generator is our own (xoshiro256**), exp is made of + and * in
// double alone, so nothing depends on the library or the machine. A NaN is never chosen; +infinity counts as the
// largest number. Thread-safety: one sequence owns one sampler.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "sampling/token_mask.h"

namespace colibri::sampling {

struct SamplingParams {
  double temperature = 1.0;  ///< 0: greedy, the other members do not matter
  int32_t top_k = 0;         ///< the k most probable; 0: off
  double top_p = 1.0;        ///< the fewest most probable tokens whose probabilities sum to at least p; 1: off
  double min_p = 0.0;        ///< only tokens at least min_p times as probable as the most probable; 0: off
  double repetition_penalty =
      1.0;  ///< positive logits are divided, others multiplied, for ids of prompt or answer; 1: off
  double presence_penalty = 0.0;   ///< subtracted once from ids of the answer, as OpenAI defines it
  double frequency_penalty = 0.0;  ///< subtracted per occurrence in the answer
  uint64_t seed = 0;
  std::vector<std::pair<TokenId, double>> logit_bias;  ///< added to the logits; ids outside the vocabulary do nothing
};

/// kUsage names the parameter and its range (NaN and infinities are out of range).
Status validate(const SamplingParams& params);

/// Index of the largest logit, the lowest index among equals. NaN is never chosen unless everything is NaN (then -1).
TokenId argmax(std::span<const float> logits);
/// The same among the tokens of `allowed`.
TokenId argmax(std::span<const float> logits, const TokenMask& allowed);

/// Memory that drawing needs: one for all sequences of a thread, since only one draws at a time.
class SamplerScratch {
 public:
  explicit SamplerScratch(int32_t vocab_size)
      : candidates_(static_cast<size_t>(vocab_size)), weights_(static_cast<size_t>(vocab_size)) {}
  /// Heap memory that one for this vocabulary takes.
  static constexpr int64_t bytes(int32_t vocab_size) {
    return vocab_size * static_cast<int64_t>(sizeof(Candidate) + sizeof(double));
  }

 private:
  friend class Sampler;
  struct Candidate {
    float logit;  // after bias and penalties, not yet divided by the temperature
    TokenId id;
  };
  std::vector<Candidate> candidates_;  // [vocab], as is the next
  std::vector<double> weights_;
};

class Sampler {
 public:
  /// `vocab_size` ids may be sampled (padded ids beyond it never are). REQUIRES: `params` are valid.
  Sampler(SamplingParams params, int32_t vocab_size);
  /// Tells the sampler about prompt tokens, for the repetition penalty. Ids outside the vocabulary are ignored.
  void observe_prompt(std::span<const TokenId> prompt);
  /// Chooses and remembers the next token, of those in `allowed` when it is given: the same as if all other logits had
  /// been -infinity from the start. kFailed when none of them is a number. Allocates nothing.
  /// REQUIRES: scratch for at least this vocabulary.
  Result<TokenId> sample(std::span<const float> logits, SamplerScratch& scratch, const TokenMask* allowed = nullptr);

 private:
  using Candidate = SamplerScratch::Candidate;
  static bool before(const Candidate& a, const Candidate& b);
  float adjusted(TokenId id, double logit) const;
  size_t collect(std::span<const float> logits, const TokenMask* allowed, std::vector<Candidate>& candidates) const;
  TokenId draw(size_t n, SamplerScratch& scratch);
  double weight(const Candidate& candidate, float largest) const;
  double weigh(size_t n, float largest, SamplerScratch& scratch) const;
  size_t keep_top_k(size_t n, SamplerScratch& scratch) const;
  size_t keep_top_p(size_t n, float largest, SamplerScratch& scratch) const;
  size_t keep_min_p(size_t n, float largest, SamplerScratch& scratch) const;
  uint64_t next_random();

  SamplingParams params_;
  int32_t vocab_size_;
  uint64_t state_[4];
  bool has_penalties_;
  std::vector<double> bias_;            // per id; empty without a bias
  std::vector<int32_t> answer_counts_;  // per id; empty without penalties, as is the next
  std::vector<bool> seen_;              // per id, prompt or answer
};

}  // namespace colibri::sampling
