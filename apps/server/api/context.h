// ApiContext: what every route works with: the engine, the settings of the API, who waits and who runs.
//
// One per server, made before the routes and destroyed after the last connection, before the EngineHost. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "admission.h"
#include "answer.h"
#include "server/engine_host.h"
#include "server/errors.h"
#include "server/log.h"
#include "workers.h"

namespace colibri::server {

struct ApiSettings {
  json::array all;            ///< [{"key", "value", "from"}], for people
  std::string model_name;     ///< what /v1/models lists
  bool strict_model = false;  ///< 404 for any other name
  size_t max_queue = 64;      ///< requests that wait
  size_t parallel = 8;        ///< sequences that the engine runs
  int queue_timeout_s = 300;
  int keep_alive_ms = 5000;                ///< of silence in a stream
  int64_t max_tokens = -1;                 ///< of an answer; -1: what the context holds
  size_t stream_buffer_bytes = 256 << 10;  ///< that an answer may always have waiting for its reader
  size_t all_buffer_bytes = 32 << 20;      ///< that all answers may: then those with more than the above pause
  bool expert_activations = false;         ///< in every answer
  bool prefixes_per_client = true;         ///< whether clients with different keys share computed prefixes: not
};

class Generation;

/// The bytes of tokens, from the engine's tokenizer.
class EngineTexts : public TokenTexts {
 public:
  explicit EngineTexts(EngineHost& host) : host_(host) {}
  std::string bytes_of(int32_t token) const override;
  static constexpr size_t kLeastLongest = 16;
  /// Bytes of the longest token; at least kLeastLongest. The first call takes some milliseconds.
  size_t longest() const;

 private:
  EngineHost& host_;
  mutable std::once_flag measured_;
  mutable size_t longest_ = kLeastLongest;
};

struct ApiContext {
  ApiContext(EngineHost& engine_host, Log& server_log, ApiSettings api_settings);
  ~ApiContext();

  EngineHost& host;
  Log& log;
  const ApiSettings settings;
  EngineTexts texts;
  Admission admission;
  const int64_t started;  ///< unix seconds

  /// Requests whose answer is being made; they live here.
  void add(std::shared_ptr<Generation> generation);
  void remove(const Generation* generation);
  std::vector<std::shared_ptr<Generation>> generations() const;

  /// colibri_inspect of the model; null until it is known.
  std::shared_ptr<const json::value> facts() const;
  /// Reads them; takes as long as the headers of the model's files.
  void read_facts();

  /// Once per name.
  void log_unknown(const std::vector<std::string>& names, std::string_view route);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const Generation*, std::shared_ptr<Generation>> generations_;
  std::set<std::string> logged_;
  std::shared_ptr<const json::value> facts_;

 public:
  Workers preparing, burying;  ///< last: they go first, while everything they use is there
};

/// The engine, or 503 with how far loading is.
std::optional<ApiError> engine_missing(const EngineHost& host);
/// 429: as many wait as may.
ApiError queue_full(const ApiContext& context);
/// What the library's error means to a client. `param`: what to blame when it is the request's fault.
ApiError api_error_of(const api::Error& error, const std::string& param);
/// 404 when the server insists on its model's name and this is another one.
std::optional<ApiError> check_model(const ApiContext& context, const std::string& name);

/// 24 letters and digits.
std::string random_id();
uint64_t random_seed();
int64_t unix_seconds();

}  // namespace colibri::server
