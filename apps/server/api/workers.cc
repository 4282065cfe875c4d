#include "workers.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace colibri::server {
namespace {

// What a large request took goes back to the system, not into the allocator's store.
void give_back_memory() {
#ifdef __GLIBC__
  constexpr size_t kKept = 16 << 20;
  if (mallinfo2().fordblks > kKept) malloc_trim(0);
#endif
}

}  // namespace

Workers::Workers(int n_threads) {
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Workers::run(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    calls_.push_back(std::move(call));
  }
  changed_.notify_one();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !calls_.empty(); });
    if (calls_.empty()) return;
    std::function<void()> call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    call();
    call = nullptr;  // what it held goes without the lock
    give_back_memory();
    lock.lock();
  }
}

}  // namespace colibri::server
