// GenerationOptions: what a request of any dialect asks of the engine, checked; and the reading of OpenAI's members for
// it.
//
// Made by the readers of bodies on a worker thread, consumed by Generation. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colibri/colibri.hpp"
#include "fields.h"

namespace colibri::server {

constexpr int64_t kMaxAnswers = 128;    ///< n
constexpr size_t kMaxStops = 64;        ///< stop strings
constexpr size_t kMaxStopBytes = 4096;  ///< of one
constexpr size_t kMaxLogitBias = 4096;
constexpr int64_t kMaxTokens = 2147483647;
constexpr double kLogitBiasBound = 100;

struct GenerationOptions {
  std::string model;  ///< as the client names it; empty: it does not
  int64_t n = 1;
  int64_t max_tokens = -1;  ///< -1: until the context is full
  /// What is absent comes from the model's generation_config.json.
  std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;  ///< of the first answer; the next ones count on
  std::vector<colibri_logit_bias> logit_bias;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int64_t logprobs = -1;  ///< as in colibri_request
  bool echo = false;
  std::string prefix_key;
  bool stream = false;
  bool include_usage = false;  ///< a last chunk with the usage
  bool return_progress = false, timings_per_token = false;
  std::optional<bool> expert_activations;  ///< absent: what the server's setting says
};

/// Sampling, stop, seed, logit_bias, stream and its options, Colibri's and llama.cpp's extras: what
/// /v1/chat/completions and /v1/completions share. Also marks what both ignore and refuses what both cannot do.
void read_generation_options(Fields& fields, GenerationOptions& options);
/// Stop strings: no empty ones (they are left out), none with NUL.
void read_stop(Fields& fields, std::string_view name, std::vector<std::string>& stop);
/// max_tokens and max_completion_tokens, the smaller one. `low`: the smallest that makes sense; -1 counts as absent.
void read_max_tokens(Fields& fields, int64_t low, GenerationOptions& options);
/// response_format, or llama.cpp's json_schema, in OpenAI's form; null: free text.
json::value read_response_format(Fields& fields);

}  // namespace colibri::server
