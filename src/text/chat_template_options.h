// RenderOptions: the clock and the bounds of one rendering of a chat template.
//
// The bounds are far above what published templates need; they are there because templates come with model files.
#pragma once

#include <cstdint>

namespace colibri::text {

struct RenderOptions {
  /// Seconds since the epoch that strftime_now formats, as civil time already shifted to the zone that is wanted.
  int64_t now_seconds = 0;
  int max_depth = 200;                  ///< macro calls and recursive loops inside each other
  int64_t max_steps = 10'000'000;       ///< statements, expressions, and every 64 bytes or 16 items that one walks over
  int64_t max_output_bytes = 64 << 20;  ///< of the text, and of what any one block or macro writes
  int64_t max_value_bytes = 256 << 20;  ///< of all values made on the way, live or not
};

}  // namespace colibri::text
