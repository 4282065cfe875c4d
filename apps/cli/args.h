// The command line as a value: one struct per command, filled by parse_arguments().
//
// CLI11 is behind it and nowhere else. Besides the commands it knows the short forms of the program's other names: see
// expand_aliases().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/failure.h"

namespace colibri::cli {

using namespace common;

/// Everything that says which model and with which settings.
struct EngineArgs {
  std::string model;
  std::string config;                                      ///< --config FILE
  std::vector<std::pair<std::string, std::string>> flags;  ///< settings by key
};

struct SamplingArgs {
  std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  std::vector<colibri_logit_bias> logit_bias;
  bool ignore_eos = false;
};

struct RunArgs {
  EngineArgs engine;
  SamplingArgs sampling;
  std::optional<std::string> prompt;
  std::string prompt_file;
  int32_t max_tokens = -1;
  bool chat = false;
  std::string system;
  std::string stats_file;
  std::string trace_file;
  bool json = false;
};

struct ChatArgs {
  EngineArgs engine;
  SamplingArgs sampling;
  int32_t max_tokens = -1;
  std::string system;
};

struct ServeArgs {
  EngineArgs engine;
};

struct TextArgs {  // tokenize, detokenize, template
  std::string model;
  bool jsonl = false;
  bool special = false;
  std::string template_file;
  std::string now;
};

struct LogitsArgs {
  EngineArgs engine;
  std::string tokens_file;
  std::string out_file;
  int32_t continue_tokens = 0;
};

struct PerplexityArgs {
  EngineArgs engine;
  std::string text_file;
  std::string tokens_file;
  int32_t window = 512;
  int32_t score_from = 1;
  bool special = false;
  bool json = false;
};

struct BenchArgs {
  EngineArgs engine;
  int32_t prompt_tokens = 512;
  int32_t generated_tokens = 64;
  int32_t repetitions = 5;
  int32_t depth = 0;
  int32_t warmup = 1;
  std::string text_file;
  uint64_t seed = 1;
  bool json = false;
};

struct ReportArgs {  // plan, inspect, validate, doctor, test, config
  EngineArgs engine;
  std::string what;  ///< test: "kernels" or "router"
  bool tensors = false;
  bool tokenizer = false;
  bool json = false;
};

struct Arguments {
  std::string command;  ///< "run" ...; "help" when `help` is to be printed
  std::string help;
  RunArgs run;
  ChatArgs chat;
  ServeArgs serve;
  TextArgs text;
  LogitsArgs logits;
  PerplexityArgs perplexity;
  BenchArgs bench;
  ReportArgs report;
};

/// Rewrites the short forms, program name first: `colibri-cli --model M --prompt T` becomes `colibri run --model M
/// --prompt T`, `colibri-server ...` becomes `colibri serve ...`; --validate, --validate-tokenizer and --test WHAT
/// become commands.
std::vector<std::string> expand_aliases(std::vector<std::string> arguments);

/// `arguments`: what stands after the program's name. A usage error names the nearest command or option.
Outcome<Arguments> parse_arguments(const std::vector<std::string>& arguments);

}  // namespace colibri::cli
