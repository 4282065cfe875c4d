#include "engine_host.h"

#include <chrono>
#include <exception>

namespace colibri::server {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

EngineHost::EngineHost(std::string model, std::vector<std::pair<std::string, std::string>> settings, Log& log)
    : model_(std::move(model)), settings_(std::move(settings)), log_(log) {}

EngineHost::~EngineHost() {
  stop_loading();
  if (loader_.joinable()) loader_.join();
}

void EngineHost::start(std::function<void()> on_settled) {
  start_ns_ = now_ns();
  loader_ = std::thread([this, call = std::move(on_settled)] { load(call); });
}

void EngineHost::load(const std::function<void()>& on_settled) {
  api::Options options;
  options.settings = settings_;
  // Which lines are shown is the log's matter, because SIGHUP may change it.
  std::erase_if(options.settings, [](const auto& setting) { return setting.first == "log_level"; });
  options.settings.emplace_back("log_level", "debug");
  options.progress = [this](uint64_t done, uint64_t total) {
    done_bytes_ = done;
    total_bytes_ = total;
    return !stop_;
  };
  options.log = [this](int level, std::string_view line) { log_.line(static_cast<LogLevel>(level), line); };
  try {
    auto opened = api::Engine::open(model_, std::move(options));
    if (opened) {
      engine_ = std::make_unique<api::Engine>(std::move(*opened));
    } else {
      error_ = opened.error();
    }
  } catch (const std::exception& error) {  // nothing of ours may leave a thread
    error_ = common::run_error(std::string("loading: ") + error.what());
  }
  state_ = engine_ != nullptr ? State::kReady : State::kFailed;
  on_settled();
}

common::Outcome<std::string> EngineHost::metrics_json() const {
  if (state() != State::kReady) return common::run_error("the model is not loaded");
  return api::detail::string_of(colibri_engine_metrics, engine_->handle());
}

EngineHost::Progress EngineHost::progress() const {
  const double seconds = start_ns_ == 0 ? 0 : 1e-9 * static_cast<double>(now_ns() - start_ns_);
  return {done_bytes_, total_bytes_, seconds};
}

size_t EngineHost::running() const {
  const std::lock_guard lock(mutex_);
  return running_.size();
}

void EngineHost::cancel_all() {
  const std::lock_guard lock(mutex_);
  for (colibri_sequence* sequence : running_) colibri_cancel(sequence);
}

RunningSequence::RunningSequence(EngineHost& host, colibri_sequence* sequence) : host_(host), sequence_(sequence) {
  const std::lock_guard lock(host_.mutex_);
  host_.running_.insert(sequence_);
  ++host_.started_;
}

RunningSequence::~RunningSequence() {
  const std::lock_guard lock(host_.mutex_);
  host_.running_.erase(host_.running_.find(sequence_));
}

}  // namespace colibri::server
