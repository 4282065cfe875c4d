// The server's log: lines of text, or JSON objects, on standard error.
//
// Thread-safe, and never waits for whoever reads the lines: one thread of its own writes them; what does not fit into a
// bounded queue is dropped and counted. Bytes of clients cannot forge lines or fields: they are always quoted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace colibri::server {

enum class LogLevel { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3 };

/// Of "error", "warn", "info", "debug"; anything else is info.
LogLevel log_level_of(std::string_view name);

/// What is said about a request when its answer is over.
struct RequestRecord {
  std::string id, client, method, path;
  int status = 0;
  uint64_t bytes_in = 0;   ///< of the body
  uint64_t bytes_out = 0;  ///< head and body
  double seconds = 0;      ///< from the end of its head to the last byte taken
  int64_t prompt_tokens = -1, cached_tokens = -1, generated_tokens = -1;  ///< -1: does not apply
  std::string end;  ///< "done", "client_gone", "slow_client", "shutdown"
};

/// One line without its line feed. `time`: "2026-02-03T04:05:06.789Z".
std::string format_line(bool as_json, std::string_view time, LogLevel level, std::string_view message);
std::string format_request(bool as_json, std::string_view time, const RequestRecord& record);

class Log {
 public:
  Log(int descriptor, bool as_json);
  ~Log();  // after what was queued has been written
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void set_level(LogLevel level) { level_ = level; }
  bool shows(LogLevel level) const { return level <= level_.load(); }
  void line(LogLevel level, std::string_view message);
  void request(const RequestRecord& record);  // at level info

 private:
  void queue(std::string line);
  void write_lines();

  const int descriptor_;
  const bool as_json_;
  std::atomic<LogLevel> level_{LogLevel::kInfo};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  uint64_t dropped_ = 0;
  bool ending_ = false;
  std::thread writer_;
};

}  // namespace colibri::server
