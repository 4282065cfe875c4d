// EngineMetrics: what operators watch. Counters, gauges and histograms of the engine since it was opened.
//
// The engine's thread writes, anybody reads at any time without a lock: every number is an atomic by itself, so a
// reading may be between two numbers of one step, never in the middle of one. Allocates nothing after construction.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/json.h"

namespace colibri::engine {

/// A number with one writer.
template <typename T>
class Counter {
 public:
  void add(T n) { value_.store(get() + n, std::memory_order_relaxed); }
  void set(T n) { value_.store(n, std::memory_order_relaxed); }
  T get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{0};
};

/// How many observations were at most each bound, in Prometheus' sense.
class Histogram {
 public:
  static constexpr size_t kMaxBounds = 24;

  /// `bounds` ascending, at most kMaxBounds; must outlive the histogram.
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}
  void observe(double value);
  uint64_t count() const;
  double sum() const { return sum_.get(); }
  /// {"bounds", "counts", "sum"}: one count more than bounds, not cumulative.
  Json json() const;

 private:
  std::span<const double> bounds_;
  std::array<Counter<uint64_t>, kMaxBounds + 1> counts_;
  Counter<double> sum_;
};

/// What a step's time went to. Whatever is slow has one of these names.
enum class Cause : uint8_t {
  kDecode,       ///< computing tokens
  kDecodeWait,   ///< waiting for experts that tokens want
  kPrefill,      ///< computing a slice of prompts
  kPrefillWait,  ///< waiting for experts that prompts want
  kSampling,     ///< logits, constraints, text, events
  kPrefix,       ///< copying computed prefixes
  kOther,        ///< admitting, ending, looking at limits
};
inline constexpr size_t kCauses = 7;
std::string_view name(Cause cause);

/// What the prefix cache tells the engine's thread, for everybody.
struct PrefixNumbers {
  Counter<int64_t> blocks, blocks_used, lookups, hits, evicted, disk_bytes, disk_reads, disk_writes, disk_errors;
};

struct EngineMetrics {
  EngineMetrics();

  Histogram time_to_first_token, inter_token, queue, step, request, batch_rows;
  Counter<uint64_t> steps, prefill_passes, prompt_tokens, cached_tokens, generated_tokens, submitted;
  Counter<uint64_t> ended_stop, ended_length, ended_cancelled, ended_error;
  Counter<int64_t> running, waiting, positions;  ///< now; positions: tokens in the cache
  PrefixNumbers prefixes;
  std::array<Counter<double>, kCauses> cause_seconds;
  std::array<Counter<uint64_t>, kCauses> slow_steps;  ///< steps that took over twice the usual, by what was longest

  /// A step is over: `seconds` by cause.
  void end_step(const std::array<double, kCauses>& seconds, size_t decode_rows);
  void count_end(std::string_view finish_reason);

 private:
  std::array<double, kCauses> usual_{};  // fading means, of steps with decode rows
  double usual_step_ = 0;
};

/// Collects samples in the form of colibri_engine_metrics.
class MetricList {
 public:
  /// Begins a metric; samples that follow belong to it.
  MetricList& metric(const char* name, const char* kind, const char* help);
  void value(double value, Json::Object labels = {});
  void histogram(const Histogram& histogram);
  Json take() { return std::move(list_); }

 private:
  Json list_{Json::Array{}};
};

void add_metrics(const EngineMetrics& metrics, MetricList& list);

}  // namespace colibri::engine
