#include "common/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/output.h"

namespace colibri::common {
namespace {

constexpr double kBarAfterSeconds = 0.3;  // nothing flashes up for what is over at once
constexpr double kBarEverySeconds = 0.1;
constexpr double kLinesAfterSeconds = 2.0;
constexpr size_t kBarWidth = 24;

void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

size_t terminal_columns() {
  struct winsize size {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string duration(double seconds) {
  char text[32];
  const auto whole = static_cast<long>(std::min(seconds + 0.5, 1e8));
  std::snprintf(text, sizeof(text), "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string percentage(uint64_t done, uint64_t total) {
  const auto percent = static_cast<uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  return std::to_string(done < total ? std::min<uint64_t>(percent, 99) : 100) + " %";
}

Progress::Progress(std::string what, Unit unit)
    : what_(std::move(what)), unit_(unit), terminal_(error_stream_is_terminal()) {}

Progress::~Progress() { finish(); }

void Progress::update(uint64_t done, uint64_t total) {
  if (total == 0) return;
  done = std::min(done, total);
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  terminal_ ? draw_bar(done, total, seconds) : print_quarter(done, total, seconds);
}

void Progress::finish() {
  if (drawn_) put("\r\033[K");
  drawn_ = false;
}

std::string Progress::amount(uint64_t value) const {
  return unit_ == Unit::kBytes ? human_bytes(value) : std::to_string(value) + " tokens";
}

void Progress::draw_bar(uint64_t done, uint64_t total, double seconds) {
  if (seconds < kBarAfterSeconds || seconds - last_draw_ < kBarEverySeconds) return;
  last_draw_ = seconds;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double rate = static_cast<double>(done) / seconds;
  std::string line = what_ + " [";
  const auto filled = static_cast<size_t>(share * static_cast<double>(kBarWidth));
  line.append(filled, '#').append(kBarWidth - filled, '.');
  line += "] " + amount(done) + " of " + amount(total) + ", " + amount(static_cast<uint64_t>(rate)) + "/s";
  if (done > 0) line += ", " + duration(static_cast<double>(total - done) / rate) + " left";
  put("\r" + line.substr(0, terminal_columns() - 1) + "\033[K");
  drawn_ = true;
}

void Progress::print_quarter(uint64_t done, uint64_t total, double seconds) {
  const uint64_t quarter = done == total ? 4 : 4 * (done >> 2) / std::max<uint64_t>(total >> 2, 1);
  if (seconds < kLinesAfterSeconds || quarter <= quarter_) return;
  quarter_ = quarter;
  put(what_ + ": " + percentage(done, total) + ", " + amount(done) + " of " + amount(total) + ", " + duration(seconds) +
      "\n");
}

}  // namespace colibri::common
