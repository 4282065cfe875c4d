// The prompts of a soak, and what a model whose experts are all in memory answers them with. Whatever else is asked of
// an engine must not change one of these tokens.
#pragma once

#include <string>
#include <vector>

#include "colibri/colibri.hpp"

namespace colibri::soak {

inline constexpr int32_t kAnswerTokens = 96;
inline constexpr int32_t kContext = 512;

struct Prompt {
  api::TokenIds ids;
  double temperature = 0;  ///< else sampled, with a seed of its own
  uint64_t seed = 0;
  api::TokenIds answer;  ///< [kAnswerTokens]

  /// For the first `tokens` of the answer; more than there are in it: -1, until the context is full.
  api::Request request(int32_t tokens) const;
};

struct Prompts {
  std::vector<Prompt> all;
  /// Of these, long ones of mixed tokens, which want nearly every expert of the model.
  size_t first_wide = 0;
};

/// Opens the model once with all experts in memory, and closes it.
api::Outcome<Prompts> answer_prompts(const std::string& model);

}  // namespace colibri::soak
