#include "context.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "generation.h"

namespace colibri::server {
namespace {

constexpr int kPreparingThreads = 2;
constexpr size_t kMostLoggedNames = 1000;

std::mt19937_64& generator() {
  thread_local std::mt19937_64 random{[] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }()};
  return random;
}

}  // namespace

std::string EngineTexts::bytes_of(int32_t token) const {
  const api::TextView text = host_.engine()->text();
  if (text) {
    if (auto bytes = text.token_bytes(token); bytes.ok()) return *std::move(bytes);
  }
  return "token_id:" + std::to_string(token);
}

size_t EngineTexts::longest() const {
  std::call_once(measured_, [this] {
    const int32_t n = host_.engine()->info().vocab_size;
    for (int32_t token = 0; token < n; ++token) longest_ = std::max(longest_, bytes_of(token).size());
  });
  return longest_;
}

ApiContext::ApiContext(EngineHost& engine_host, Log& server_log, ApiSettings api_settings)
    : host(engine_host),
      log(server_log),
      settings(std::move(api_settings)),
      texts(engine_host),
      admission(settings.max_queue, settings.parallel),
      started(unix_seconds()),
      preparing(kPreparingThreads),
      burying(1) {}

ApiContext::~ApiContext() = default;

void ApiContext::add(std::shared_ptr<Generation> generation) {
  const std::lock_guard lock(mutex_);
  const Generation* key = generation.get();
  generations_.emplace(key, std::move(generation));
}

void ApiContext::remove(const Generation* generation) {
  std::shared_ptr<Generation> last;  // goes without the lock
  const std::lock_guard lock(mutex_);
  const auto found = generations_.find(generation);
  if (found == generations_.end()) return;
  last = std::move(found->second);
  generations_.erase(found);
}

std::vector<std::shared_ptr<Generation>> ApiContext::generations() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Generation>> all;
  for (const auto& [key, generation] : generations_) all.push_back(generation);
  return all;
}

std::shared_ptr<const json::value> ApiContext::facts() const {
  const std::lock_guard lock(mutex_);
  return facts_;
}

void ApiContext::read_facts() {
  const auto report = api::inspect(host.model(), false);
  auto parsed = report.ok() ? common::parse_json(*report, "inspect") : common::Outcome<json::value>(report.error());
  if (!parsed)
    return log.line(LogLevel::kWarn,
                    "what /v1/models and /props say of the model is not known: " + parsed.error().message);
  const std::lock_guard lock(mutex_);
  facts_ = std::make_shared<const json::value>(*std::move(parsed));
}

void ApiContext::log_unknown(const std::vector<std::string>& names, std::string_view route) {
  for (const std::string& name : names) {
    {
      const std::lock_guard lock(mutex_);
      if (logged_.size() >= kMostLoggedNames || !logged_.insert(name).second) continue;
    }
    log.line(LogLevel::kInfo,
             std::string(route) + ": \"" + name.substr(0, 100) + "\" is not known and was ignored; this is said once");
  }
}

std::optional<ApiError> engine_missing(const EngineHost& host) {
  switch (host.state()) {
    case EngineHost::State::kReady:
      return std::nullopt;
    case EngineHost::State::kFailed:
      return ApiError{503, "the model could not be loaded: " + host.error().message, "model_failed", {}, {}, 0};
    case EngineHost::State::kLoading:
      break;
  }
  const EngineHost::Progress progress = host.progress();
  return ApiError{503,
                  "the model is being loaded: " + std::to_string(progress.done_bytes) + " of " +
                      std::to_string(progress.total_bytes) + " bytes; try again soon",
                  "model_loading",
                  {},
                  {},
                  5};
}

ApiError queue_full(const ApiContext& context) {
  return {
      429,
      "the queue is full: " + std::to_string(context.settings.max_queue) + " requests wait already; try again later",
      "queue_full",
      {},
      {},
      context.admission.retry_after_s()};
}

ApiError api_error_of(const api::Error& error, const std::string& param) {
  switch (error.code) {
    case COLIBRI_USAGE:
      return {400, error.message, "invalid_value", param, {}, 0};
    case COLIBRI_CONTEXT_OVERFLOW:
      return {400, error.message, "context_length_exceeded", param, {}, 0};
    case COLIBRI_UNSUPPORTED:
      return {400, error.message, "unsupported_parameter", param, {}, 0};
    case COLIBRI_CANCELLED:
      return {503, "the server is shutting down", "shutting_down", {}, {}, 5};
    case COLIBRI_DOES_NOT_FIT:
      return {503, error.message, "out_of_memory", {}, {}, 5};
    case COLIBRI_IO:
      return {500, error.message, "io_error", {}, {}, 0};
    default:
      return {500, error.message, "internal_error", {}, {}, 0};
  }
}

std::optional<ApiError> check_model(const ApiContext& context, const std::string& name) {
  if (!context.settings.strict_model || name.empty() || name == context.settings.model_name) return std::nullopt;
  return ApiError{404,
                  "the model \"" + name.substr(0, 100) + "\" does not exist; this server has \"" +
                      context.settings.model_name + "\"",
                  "model_not_found",
                  "model",
                  {},
                  0};
}

std::string random_id() {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::uniform_int_distribution<size_t> pick(0, kLetters.size() - 1);
  std::string id;
  for (int i = 0; i < 24; ++i) id += kLetters[pick(generator())];
  return id;
}

uint64_t random_seed() { return generator()(); }

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace colibri::server
