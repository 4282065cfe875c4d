// Replaying a trace against a cache of a given size: the policies as the store runs them, and the best that is
// possible.
//
// The cache is one class of slots and begins empty. A step holds what it wants of a layer until the layer is done; what
// does not fit beside it comes in waves.
#pragma once

#include <cstdint>
#include <string_view>

#include "replay/trace_file.h"
#include "store/cache_policy.h"

namespace colibri::replay {

struct Hits {
  int64_t hits = 0;
  int64_t wanted = 0;  ///< (layer, expert) pairs
  double rate() const { return wanted == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(wanted); }
};

struct Score {
  Hits all;
  Hits decode;        ///< of steps with one position
  Hits after_prompt;  ///< of the first kAfterPrompt such steps after a longer one
};

inline constexpr int kAfterPrompt = 32;

Score replay(const Trace& trace, int64_t slots, store::PolicyKind kind);
/// Belady: what is used again latest goes.
Score replay_optimum(const Trace& trace, int64_t slots);

}  // namespace colibri::replay
