// ThreadPool: fork-join. run() hands numbered tasks to the workers and to the calling thread, and returns when all are
// done.
//
// Tasks are claimed one by one from a shared counter, so uneven tasks balance themselves; which thread runs a task must
// not matter for its result. Workers spin briefly between runs, then sleep.
// Thread-safety: one caller at a time; run() may not be called from inside a task. No allocation after create().
// Invariant: a worker reads the job only after it has claimed a task of it, and run() waits for every claimed task; so
// a worker that wakes late finds nothing to claim and touches nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"

namespace colibri::compute {

class ThreadPool {
 public:
  /// `threads` counts the caller, so threads - 1 are started. kDoesNotFit when the system refuses one. REQUIRES:
  /// threads
  /// >= 1.
  static Result<std::unique_ptr<ThreadPool>> create(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// From now on `stop_asked` is called before each task; once it says true, the remaining tasks of this and later runs
  /// are skipped until the next watch(). It may be null, and is called from all threads.
  void watch(bool (*stop_asked)(const void*), const void* context);
  /// Tasks were skipped since the last watch(): what they should have written is worthless.
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

  /// Calls body(task, thread) for every task in [0, tasks), ascending as they are claimed; thread is in [0, threads()).
  template <typename Body>
  void run(int64_t tasks, const Body& body) {
    run_tasks(
        tasks, [](const void* b, int64_t task, int thread) { (*static_cast<const Body*>(b))(task, thread); }, &body);
  }

 private:
  using Function = void (*)(const void* body, int64_t task, int thread);

  ThreadPool() = default;
  void run_tasks(int64_t tasks, Function function, const void* body);
  void work(int thread);
  bool run_one_task(int thread);
  bool must_skip();
  void stop();

  // The job. Written by run_tasks() before it publishes tickets_, read after a claim.
  Function function_ = nullptr;
  const void* body_ = nullptr;
  int64_t tasks_ = 0;
  bool (*stop_asked_)(const void*) = nullptr;
  const void* stop_context_ = nullptr;

  std::atomic<uint64_t> tickets_{0};  ///< run number << 32 | tasks not yet claimed
  std::atomic<int64_t> unfinished_{0};
  std::atomic<uint32_t> wake_{0};  ///< changes with every run; workers sleep on it
  std::atomic<bool> stopping_{false};
  std::atomic<bool> abandoned_{false};
  std::vector<std::thread> workers_;
};

}  // namespace colibri::compute
