// Running several sequences at once and timing their tokens, for bench.
#pragma once

#include <vector>

#include "common/failure.h"
#include "common/json.h"

namespace colibri::cli {

using namespace common;

/// What one phase of a benchmark gave.
struct Measurement {
  int64_t tokens = 0;
  double seconds = 0;
  std::vector<double> gaps;        ///< seconds between neighbouring tokens of a sequence, all sequences together
  double first_token_seconds = 0;  ///< of the slowest sequence
  json::object stats;              ///< of the sequences, counts added up

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

/// What a sequence goes on with.
enum class NextTokens {
  kLikeliest,
  kRandom,  ///< any token, the same ones in every run of the program
};

/// Runs one sequence per prompt, all at once, whatever the model says about the end.
/// Prefill: all prompt tokens, until the last sequence has read its prompt; nothing is generated, so a prompt may fill
/// the context. CANCELLED after a signal.
Outcome<Measurement> measure_prefill(api::Engine& engine, const std::vector<TokenIds>& prompts,
                                     const std::string& model);
/// Decode: `n` tokens per sequence after the first one, from the moment when every sequence decodes until one is done.
Outcome<Measurement> measure_decode(api::Engine& engine, const std::vector<TokenIds>& prompts, int32_t n,
                                    NextTokens tokens, const std::string& model);

/// {"p50", "p90", "p99", "max"} of the values.
json::object percentiles(std::vector<double> values);

}  // namespace colibri::cli
