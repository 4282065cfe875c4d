// Numbers for /metrics: the text format of Prometheus (0.0.4), what the HTTP side counts, and this process.
//
// ServerMetrics is thread-safe; the counters that connections touch often are atomics, those per request stand under
// one short lock. Rendering takes that lock for a copy and waits for nobody else.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/failure.h"

namespace colibri::server {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Writes families one after the other; each name once.
class MetricsText {
 public:
  /// `kind`: "counter", "gauge", "histogram". Samples of this family follow.
  void family(std::string name, std::string_view help, std::string_view kind);
  void sample(const Labels& labels, double value) { sample("", labels, value); }
  /// `counts`: not cumulative, one more than bounds.
  void histogram(const Labels& labels, std::span<const double> bounds, std::span<const double> counts, double sum);
  /// A family with one sample.
  void single(std::string name, std::string_view help, std::string_view kind, double value);
  std::string take() { return std::move(text_); }

 private:
  void sample(std::string_view suffix, const Labels& labels, double value);
  std::string name_, text_;
};

/// The families of colibri_engine_metrics under "colibri_" + name. An error when the JSON is not what colibri.h says;
/// the families before the fault have been written.
common::Status append_engine_metrics(std::string_view json, MetricsText& text);
/// process_*: memory, processor time, threads, open files, start.
void append_process_metrics(MetricsText& text);

class ServerMetrics {
 public:
  std::atomic<int64_t> open_connections{0};
  std::atomic<int64_t> running_requests{0};
  std::atomic<int64_t> queued_bytes{0};  ///< of answers, in the server
  std::atomic<int64_t> body_bytes{0};    ///< of requests that are not answered yet
  std::atomic<uint64_t> connections{0}, refused_connections{0}, slow_readers{0}, gone_clients{0}, timeouts{0};
  std::atomic<uint64_t> bytes_in{0}, bytes_out{0};

  /// `route`: the route's path, so that there are few.
  void count_request(std::string_view method, std::string_view route, int status, double seconds);
  void append(MetricsText& text) const;

 private:
  static constexpr std::array kBounds = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0};
  struct Durations {
    std::array<double, kBounds.size() + 1> counts{};
    double sum = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, int>, uint64_t> requests_;  // by method, route and status
  std::map<std::string, Durations> durations_;                              // by route
};

}  // namespace colibri::server
