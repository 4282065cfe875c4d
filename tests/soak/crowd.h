// The crowd: clients on several threads that all ask one engine at the same time. Some wait for the end of an answer,
// some cancel, some just leave, some do not listen for a while; whoever gets a token checks it.
#pragma once

#include <cstdint>

#include "findings.h"
#include "prompts.h"

namespace colibri::soak {

struct CrowdPlan {
  int clients = 2;       ///< threads
  int asks_at_once = 2;  ///< of each client
  int asks = 300;        ///< of all clients
  bool leaves = false;   ///< after `asks` nobody waits for an end any more
  double seconds = 1e9;  ///< nobody asks anything new after so long
  uint64_t seed = 0;
};

struct CrowdCount {
  int64_t finished = 0, cancelled = 0, left = 0, tokens = 0;
};

/// Returns when every sequence was freed.
CrowdCount run_crowd(api::Engine& engine, const Prompts& prompts, const CrowdPlan& plan, Findings& findings);

}  // namespace colibri::soak
