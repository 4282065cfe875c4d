#include "platform/memory_speed.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.h"
#include "platform/memory.h"

namespace colibri::platform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLeast = int64_t{64} << 20, kMost = int64_t{128} << 20;
constexpr int kPasses = 5;  // the best one counts: the others met somebody else
constexpr std::chrono::milliseconds kTime(8);
constexpr int64_t kStep = 1 << 20;  // between two looks at the clock

// Twice what the caches hold, where they say so.
int64_t wanted_bytes() {
  int64_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = std::max(0L, ::sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  return std::clamp(2 * cache, kLeast, kMost);
}

// Sums in independent lanes, so that loads and not additions are what takes time.
uint64_t read_all(const std::byte* data, int64_t bytes) {
  constexpr int kLanes = 16;
  uint64_t sums[kLanes] = {};
  for (int64_t at = 0; at < bytes; at += sizeof sums) {
    uint64_t line[kLanes];
    std::memcpy(line, data + at, sizeof line);
    for (int i = 0; i < kLanes; ++i) sums[i] += line[i];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : sums) sum += lane;
  return sum;
}

template <typename Work>
void on_threads(int n, const Work& work) {
  std::vector<std::jthread> others;  // joined at the end
  for (int i = 1; i < n; ++i) others.emplace_back(work, i);
  work(0);
}

// Bytes per second of all threads together, each over its slice again and again.
double read_for_a_while(const std::byte* memory, int64_t slice, int threads) {
  std::atomic<int64_t> read{0};
  std::atomic<uint64_t> sum{0};  // makes the reading needed
  const Clock::time_point start = Clock::now();
  on_threads(threads, [&](int thread) {
    const std::byte* data = memory + slice * thread;
    uint64_t own = 0;
    int64_t done = 0;
    for (; Clock::now() - start < kTime; done += kStep) own += read_all(data + done % slice, kStep);
    sum += own;
    read += done;
  });
  return static_cast<double>(read) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<double> measure_memory_read(int threads) {
  COLIBRI_CHECK(threads >= 1);
  const int64_t bytes = std::min(wanted_bytes(), available_memory_bytes() / 4);
  const int64_t slice = std::max<int64_t>(1, bytes / threads / kStep) * kStep;
  COLIBRI_ASSIGN(const Arena arena, Arena::allocate(slice * threads, Pages::kOnFirstTouch));
  // Written by all threads: on machines with several memories the pages spread like a model's do.
  on_threads(threads, [&](int thread) { std::memset(arena.data() + slice * thread, 1, static_cast<size_t>(slice)); });
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) best = std::max(best, read_for_a_while(arena.data(), slice, threads));
  return best;
}

}  // namespace colibri::platform
