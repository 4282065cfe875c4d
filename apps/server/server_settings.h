// The settings of `colibri serve`: one table, from which flags, variables, config keys, help and documents follow, in
// the order and with the rules of common/settings.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/settings.h"

namespace colibri::server {

struct ServerSettings {
  std::string host;
  int port = 0;
  int http_threads = 0;
  std::string api_key_file;
  bool insecure = false;
  std::vector<std::string> cors_origin, allowed_host, trusted_proxy;
  uint64_t max_body_bytes = 0;
  int max_connections = 0;
  int header_timeout_s = 0, body_timeout_s = 0, idle_timeout_s = 0, write_timeout_s = 0, drain_timeout_s = 0;
  int client_requests = 0;  ///< at the same time; 0: any number
  int client_rate = 0;      ///< per minute; 0: any number
  bool log_json = false;
  std::string model_name;  ///< empty: the name of the model's file or folder
  bool strict_model = false;
  int max_queue = 0;
  int queue_timeout_s = 0, keep_alive_s = 0;
  int max_tokens = 0;  ///< of an answer; 0: what the context holds
  bool expert_activations = false;
  bool share_prefixes = false;
  int parallel = 1;  ///< the engine's setting
};

/// The rows, for Settings::load and the command line.
common::OwnSettings setting_rows();
/// What `serve` prefers to the defaults of the library.
std::vector<std::pair<std::string, std::string>> engine_defaults();
/// Typed, of settings that were loaded with setting_rows().
ServerSettings server_settings(const common::Settings& settings);

}  // namespace colibri::server
