// Statistics of one sequence, as the stats JSON of the interfaces prints them.
//
// Thread-safety: the engine's thread writes; others read after the END event.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "store/expert_store.h"

namespace colibri::engine {

using Clock = std::chrono::steady_clock;

/// Expert use of a phase: a hit or miss is one (layer, expert) wanted by a step.
struct ExpertUse {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t bytes_read = 0;
  double wait_seconds = 0;
};

struct Phase {
  int64_t tokens = 0;
  double seconds = 0;
  ExpertUse experts;
};

struct SequenceStatistics {
  Clock::time_point submitted = Clock::now();
  double first_token_seconds = -1;  ///< since submission; -1: none yet
  Phase prefill, decode;
  std::vector<float> inter_token_seconds;  ///< reserved before the first token
  std::vector<ExpertUse> steps;            ///< `decode.experts` after each of them, likewise
  std::vector<uint32_t> activations;       ///< [moe layers, experts]
  const char* finish_reason = "";

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - submitted).count(); }
};

/// Facts of the engine that go into every stats object.
struct EngineFacts {
  std::string model;
  double load_seconds = 0;
  int64_t budget_bytes = 0, planned_bytes = 0;
  std::string isa;
  int threads = 0;
  int n_moe_layers = 0, n_experts = 0;
  std::string io = "buffered";
};

/// Adds "memory", "isa", "threads" and "io".
void add_facts(const EngineFacts& facts, Json& json);
/// What the store holds and did since the engine was opened.
Json store_json(const store::StoreStatistics& store);

Json stats_json(const SequenceStatistics& stats, const EngineFacts& facts, const store::StoreStatistics& store,
                int64_t prompt_tokens, int64_t generated_tokens);

}  // namespace colibri::engine
