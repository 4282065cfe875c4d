// Findings: what a soak has seen that must not be. Every one is printed at once; the run goes on.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

namespace colibri::soak {

class Findings {
 public:
  /// What the findings that follow are about: seed, settings.
  void set_subject(std::string subject) {
    const std::lock_guard lock(mutex_);
    subject_ = std::move(subject);
  }

  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (++count_ > kPrinted) return;
    std::fprintf(stderr, "soak: %s\n      with %s\n", what.c_str(), subject_.c_str());
  }

  int count() const { return count_; }

 private:
  static constexpr int kPrinted = 50;
  std::mutex mutex_;
  std::string subject_;
  std::atomic<int> count_{0};
};

}  // namespace colibri::soak
