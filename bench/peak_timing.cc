#include "peak_timing.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace colibri::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of the fastest of `runs` runs of body(thread) on all threads at once.
template <typename Body>
double fastest_run(int threads, int runs, const Body& body) {
  double best = 1e9;
  Clock::time_point start;
  bool running = false;
  const auto tick = [&]() noexcept {  // between two barriers: all wait
    const Clock::time_point now = Clock::now();
    if (running) best = std::min(best, std::chrono::duration<double>(now - start).count());
    running = !running;
    start = now;
  };
  std::barrier barrier(threads, tick);
  const auto work = [&](int thread) {
    for (int i = 0; i < runs; ++i) {
      barrier.arrive_and_wait();
      body(thread);
      barrier.arrive_and_wait();
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  return best;
}

/// Rounds that take about `seconds`.
int64_t rounds_for(const PeakLoop& loop, double seconds) {
  constexpr int64_t kProbe = 4096;
  const double probe = fastest_run(1, 5, [&](int) { loop.run(kProbe); });
  return std::max(kProbe, static_cast<int64_t>(kProbe * seconds / probe));
}

}  // namespace

double peak_operations_per_second(const PeakLoop& loop, int threads) {
  const int64_t rounds = rounds_for(loop, 1e-3);
  const double seconds = fastest_run(threads, 100, [&](int) { loop.run(rounds); });
  return static_cast<double>(rounds) * loop.operations_per_round * threads / seconds;
}

double read_bytes_per_second(std::span<const std::byte> memory, int threads) {
  constexpr size_t kPage = 4096;
  const size_t part = memory.size() / static_cast<size_t>(threads) / kPage * kPage;
  std::vector<uint64_t> results(static_cast<size_t>(threads));
  const double seconds = fastest_run(threads, 10, [&](int thread) {
    const auto index = static_cast<size_t>(thread);
    results[index] = read_all(memory.data() + index * part, static_cast<int64_t>(part));
  });
  return static_cast<double>(part) * threads / seconds;
}

}  // namespace colibri::bench
