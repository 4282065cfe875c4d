#include "compute/cpu/thread_pool.h"

#include <string>
#include <system_error>

#include "base/check.h"

namespace colibri::compute {
namespace {

constexpr uint64_t kTaskMask = 0xffffffffu;
constexpr int kSpins = 100;  // a few tens of microseconds: longer than the gap between two operations of a layer

template <typename T>
void wait_while_equal(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    std::this_thread::yield();  // another program's turn, if it waits for this core
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads) {
  COLIBRI_CHECK(threads >= 1);
  std::unique_ptr<ThreadPool> pool(new ThreadPool);
  pool->workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) pool->workers_.emplace_back(&ThreadPool::work, pool.get(), i);
  } catch (const std::system_error& e) {
    return Error{ErrorCode::kDoesNotFit, "cannot start compute thread " + std::to_string(pool->threads() + 1) + " of " +
                                             std::to_string(threads) + " (" + e.what() + "); use fewer threads"};
  }
  return pool;
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::watch(bool (*stop_asked)(const void*), const void* context) {
  stop_asked_ = stop_asked;
  stop_context_ = context;
  abandoned_.store(false, std::memory_order_relaxed);
}

// Latched: all tasks after the first refusal are skipped too, whatever the answer would be then.
bool ThreadPool::must_skip() {
  if (abandoned()) return true;
  if (stop_asked_ == nullptr || !stop_asked_(stop_context_)) return false;
  abandoned_.store(true, std::memory_order_relaxed);
  return true;
}

void ThreadPool::run_tasks(int64_t tasks, Function function, const void* body) {
  COLIBRI_CHECK(tasks >= 0 && tasks <= static_cast<int64_t>(kTaskMask));
  if (tasks <= 1 || workers_.empty()) {
    for (int64_t task = 0; task < tasks && !must_skip(); ++task) function(body, task, 0);
    return;
  }
  function_ = function;
  body_ = body;
  tasks_ = tasks;
  unfinished_.store(tasks, std::memory_order_relaxed);
  const uint64_t run_number = (tickets_.load(std::memory_order_relaxed) >> 32) + 1;
  tickets_.store(run_number << 32 | static_cast<uint64_t>(tasks), std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  while (run_one_task(0)) {
  }
  for (int64_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) wait_while_equal(unfinished_, left);
}

bool ThreadPool::run_one_task(int thread) {
  uint64_t tickets = tickets_.load(std::memory_order_acquire);
  do {
    if ((tickets & kTaskMask) == 0) return false;
  } while (!tickets_.compare_exchange_weak(tickets, tickets - 1, std::memory_order_acq_rel, std::memory_order_acquire));
  if (!must_skip()) function_(body_, tasks_ - static_cast<int64_t>(tickets & kTaskMask), thread);
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  return true;
}

void ThreadPool::work(int thread) {
  for (;;) {
    const uint32_t seen = wake_.load(std::memory_order_acquire);
    while (run_one_task(thread)) {
    }
    if (stopping_.load(std::memory_order_acquire)) return;
    wait_while_equal(wake_, seen);
  }
}

}  // namespace colibri::compute
