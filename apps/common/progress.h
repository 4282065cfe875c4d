// Progress of something long, on standard error.
//
// On a terminal a bar that redraws itself; otherwise one plain line per quarter, once it takes longer than two seconds.
// Nothing at all for what is over at once. Thread-safety: update() may come from another thread than the rest, not at
// the same time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace colibri::common {

class Progress {
 public:
  enum class Unit { kBytes, kTokens };
  Progress(std::string what, Unit unit);
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, uint64_t total);
  /// Wipes the bar, if there is one: something else is about to be written.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw_bar(uint64_t done, uint64_t total, double seconds);
  void print_quarter(uint64_t done, uint64_t total, double seconds);
  std::string amount(uint64_t value) const;

  const std::string what_;
  const Unit unit_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  double last_draw_ = 0;  // seconds after start_
  uint64_t quarter_ = 0;  // the last quarter that was printed
  bool drawn_ = false;
};

/// "37 %", rounded down, so that 100 % is the end. REQUIRES: total > 0.
std::string percentage(uint64_t done, uint64_t total);
/// "12.3 MiB".
std::string human_bytes(uint64_t bytes);

}  // namespace colibri::common
