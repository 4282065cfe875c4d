// Two kinds of threads beside the network's and the engine's: those that prepare requests, and one that buries
// sequences.
//
// Parsing, templates and tokenizers may take a second on ten megabytes; the network's threads must not. A sequence that
// was cancelled may have to wait for the engine's present step before it can be freed; nobody else should.
// Thread-safe. Destructors do what was queued, then join.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace colibri::server {

class Workers {
 public:
  explicit Workers(int n_threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// No more calls; waits for those that were queued.
  void stop();
  /// Calls run in the order in which they came, on one of the threads. They must not throw.
  /// After stop() they are dropped.
  void run(std::function<void()> call);
  /// Destroys it on one of the threads.
  template <typename T>
  void bury(std::unique_ptr<T> object) {
    run([shared = std::shared_ptr<T>(std::move(object))]() mutable { shared.reset(); });
  }

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> calls_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace colibri::server
