// Memory from the operating system: aligned arenas, and what the machine and its cgroup still have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace colibri::platform {

/// When the pages of an arena become memory.
enum class Pages {
  kNow,           ///< in allocate(): no page fault happens later
  kOnFirstTouch,  ///< for memory that is filled at once, best by several threads
};

/// One anonymous mapping, page-aligned, zeroed, with huge pages asked for when it is large. Move-only.
class Arena {
 public:
  /// kDoesNotFit names the bytes when the system refuses.
  static Result<Arena> allocate(int64_t bytes, Pages pages = Pages::kNow);
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::byte* data() const { return data_; }
  /// At least what was asked for: whole pages.
  int64_t size_bytes() const { return size_bytes_; }
  /// Makes the pages of [first, first + bytes) memory now, if they were not yet. kDoesNotFit when the system refuses.
  /// Any thread, also while others use them. Mapping and starting threads wait meanwhile, so take pieces.
  Status make_resident(int64_t first, int64_t bytes);
  /// Hands out the next `bytes`, 64-byte aligned. REQUIRES: they fit.
  std::byte* take(int64_t bytes);
  int64_t used_bytes() const { return used_bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0;
  int64_t used_bytes_ = 0;
};

/// Gives the whole pages of [data, data + bytes) back to the system; they read as zeros when they are touched again.
void discard(std::byte* data, int64_t bytes);

/// Rounds up to the alignment that Arena::take keeps.
constexpr int64_t aligned_bytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Resident set size of this process: now, and the highest so far.
int64_t rss_bytes();
int64_t peak_rss_bytes();
/// Gives freed heap memory back to the system; after something large was parsed and dropped.
void trim_heap();
/// Bytes that this process may still take: the least of MemAvailable and what the limits of its control group and of
/// the groups around it (v1 or v2) leave. Negative: so much more is used than a limit that was lowered allows. Reads
/// the limits anew each time and allocates nothing after the first call, some ten microseconds; the group is the one
/// that the process was in at the first call. Any thread.
int64_t memory_headroom_bytes();
/// The same, at least 0.
int64_t available_memory_bytes();

}  // namespace colibri::platform
