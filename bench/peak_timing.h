// How peaks are timed: many short runs, of which the fastest is the least disturbed.
//
// Thread-safety: one caller at a time, because two would disturb each other. Nothing is kept between calls.
#pragma once

#include <cstddef>
#include <span>

#include "peak_loops.h"

namespace colibri::bench {

/// Of `threads` threads together.
double peak_operations_per_second(const PeakLoop& loop, int threads);
/// The same, each thread reading its part. REQUIRES: 64-byte aligned, a multiple of 4096 bytes per thread.
double read_bytes_per_second(std::span<const std::byte> memory, int threads);

}  // namespace colibri::bench
