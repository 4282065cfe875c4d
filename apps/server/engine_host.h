// The engine of a server: opened on a thread of its own while the server answers already.
//
// Thread-safe. Routes ask for the engine with every request: it is there for as long as the host once state() is
// kReady. Whoever runs a sequence holds a RunningSequence beside it, so that the end of the server can cancel what
// still runs. Ownership: the host owns the engine; sequences must be freed before the host is destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/failure.h"
#include "log.h"

namespace colibri::server {

class EngineHost {
 public:
  enum class State { kLoading, kReady, kFailed };

  EngineHost(std::string model, std::vector<std::pair<std::string, std::string>> settings, Log& log);
  ~EngineHost();  // stops loading, waits for it, closes the engine
  EngineHost(const EngineHost&) = delete;
  EngineHost& operator=(const EngineHost&) = delete;

  /// Begins to load; `on_settled` is called from the loading thread when that has come to an end, either way.
  void start(std::function<void()> on_settled);
  /// Gives up loading, soon.
  void stop_loading() { stop_ = true; }

  State state() const { return state_.load(); }
  /// Null until the model is loaded.
  api::Engine* engine() const { return state() == State::kReady ? engine_.get() : nullptr; }
  /// REQUIRES: state() == kFailed.
  const common::Error& error() const { return error_; }
  const std::string& model() const { return model_; }

  /// colibri_engine_metrics; an error while there is no engine. Waits for nobody.
  common::Outcome<std::string> metrics_json() const;

  struct Progress {
    uint64_t done_bytes = 0, total_bytes = 0;
    double seconds = 0;  ///< since start()
  };
  Progress progress() const;

  size_t running() const;
  uint64_t started() const { return started_.load(); }
  void cancel_all();

 private:
  friend class RunningSequence;
  void load(const std::function<void()>& on_settled);

  const std::string model_;
  const std::vector<std::pair<std::string, std::string>> settings_;
  Log& log_;
  std::atomic<State> state_{State::kLoading};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> done_bytes_{0}, total_bytes_{0}, started_{0};
  std::atomic<int64_t> start_ns_{0};
  std::unique_ptr<api::Engine> engine_;
  common::Error error_;
  mutable std::mutex mutex_;
  std::multiset<colibri_sequence*> running_;
  std::thread loader_;
};

/// One sequence that runs. REQUIRES: it lives no longer than the sequence, nor than the host.
class RunningSequence {
 public:
  RunningSequence(EngineHost& host, colibri_sequence* sequence);
  ~RunningSequence();
  RunningSequence(const RunningSequence&) = delete;
  RunningSequence& operator=(const RunningSequence&) = delete;

 private:
  EngineHost& host_;
  colibri_sequence* const sequence_;
};

}  // namespace colibri::server
