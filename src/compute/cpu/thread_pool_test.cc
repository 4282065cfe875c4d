#include "compute/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace colibri::compute {
namespace {

TEST(ThreadPool, RunsEveryTaskOnceAndThenReturns) {
  const auto pool = ThreadPool::create(4).value();
  for (int64_t tasks : {0, 1, 2, 3, 100, 1000}) {
    std::vector<int> runs(static_cast<size_t>(tasks));  // not atomic: run() itself must order the accesses
    pool->run(tasks, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
    EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(tasks), 1));
  }
}

TEST(ThreadPool, ThreadNumbersNeverCollide) {
  const auto pool = ThreadPool::create(3).value();
  EXPECT_EQ(pool->threads(), 3);
  std::vector<int64_t> scratch(3);  // one element per thread, not atomic: TSan sees two tasks in one place
  for (int round = 0; round < 50; ++round)
    pool->run(20, [&](int64_t, int thread) { ++scratch.at(static_cast<size_t>(thread)); });
  EXPECT_EQ(scratch[0] + scratch[1] + scratch[2], 50 * 20);
}

// A worker that wakes late must not take the next run's tasks with the last run's body.
TEST(ThreadPool, ThousandsOfShortRunsNeverMixTheirBodies) {
  const auto pool = ThreadPool::create(4).value();
  for (int64_t run = 0; run < 5000; ++run) {
    const int64_t tasks = 2 + run % 5;
    std::vector<int64_t> seen(static_cast<size_t>(tasks), -1);
    pool->run(tasks, [&seen, run](int64_t task, int) { seen[static_cast<size_t>(task)] = run; });
    ASSERT_EQ(seen, std::vector<int64_t>(static_cast<size_t>(tasks), run));
  }
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  const auto pool = ThreadPool::create(2).value();
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    // Each task waits for the other: it takes two threads to finish.
    std::atomic<int> arrived{0};
    pool->run(2, [&](int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
  }
}

TEST(ThreadPool, CanBeDestroyedAtAnyMoment) {
  for (int i = 0; i < 100; ++i) {
    const auto pool = ThreadPool::create(1 + i % 4).value();
    if (i % 3 != 0) pool->run(i % 7, [](int64_t, int) {});
  }
}

TEST(ThreadPool, WorkIsSkippedOnceStopSaysSoAndUntilTheNextWatch) {
  for (const int threads : {1, 3}) {
    const auto pool = *ThreadPool::create(threads);
    std::atomic<int> done{0};
    const auto stop = [](const void* counter) { return static_cast<const std::atomic<int>*>(counter)->load() >= 5; };
    pool->watch(stop, &done);
    pool->run(1000, [&done](int64_t, int) { ++done; });
    EXPECT_TRUE(pool->abandoned());
    EXPECT_LT(done.load(), 5 + threads);
    const int before = done.load();
    done = 0;  // stop would say false again, but abandoned work stays abandoned
    pool->run(10, [&done](int64_t, int) { ++done; });
    EXPECT_EQ(done.load(), 0) << before;
    pool->watch(nullptr, nullptr);
    pool->run(10, [&done](int64_t, int) { ++done; });
    EXPECT_EQ(done.load(), 10);
  }
}

}  // namespace
}  // namespace colibri::compute
