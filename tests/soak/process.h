// What this process holds, as the system and the allocator count it.
#pragma once

#include <cstdint>

namespace colibri::soak {

struct Holdings {
  int64_t rss_bytes = 0;
  int64_t heap_bytes = 0;  ///< given out by malloc
  int files = 0;           ///< open descriptors
  int threads = 0;
};

/// Gives the system back what malloc only keeps, then counts.
Holdings count_holdings();

/// The system's record of the highest resident memory begins anew. An engine counts that record into its plan, so
/// without this a large engine would make every later small budget too small.
void forget_peak();

/// Whether a sanitizer's own memory stands between this process and its numbers.
bool memory_is_a_sanitizers();

}  // namespace colibri::soak
