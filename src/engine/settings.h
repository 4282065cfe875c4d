// Settings: one table. Each row gives a setting's name, type, default, range and help; flags, environment variables,
// config keys, messages and documentation follow from it.
//
// Thread-safety: the table is constant; Settings is a plain value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace colibri::engine {

/// Effective values. 0 or -1 stands for "auto" where a comment says so.
struct Settings {
  int64_t memory_bytes = -1;          ///< -1: what the machine leaves free
  int64_t expert_memory_bytes = -1;   ///< -1: auto
  double expert_memory_percent = -1;  ///< -1: not given in percent
  int64_t context = 0;                ///< 0: auto
  int parallel = 1;
  int max_batch_size = 64;
  int prefill_chunk = 0;  ///< 0: auto
  double prefill_share = 0.5;
  int threads = 0;  ///< 0: cores that this process may use
  int router_threads = 1;
  std::string isa = "auto";
  std::string kv_type = "f32";
  std::string activations = "auto";
  std::string expert_cache_policy = "auto";
  int64_t lfu_threshold = 100;
  std::string heat_file = "auto";
  std::string batching = "routing";
  double step_miss_seconds = 2;
  int64_t prefix_cache_bytes = 0;  ///< -1: auto
  std::string prefix_folder = "off";
  int64_t prefix_disk_bytes = int64_t{4} << 30;
  double prefetch_weight = -1;  ///< -1: auto
  bool mmap_exec = false;
  int stream_count = 8;
  std::string io = "auto";
  int read_timeout = 30;  ///< seconds
  std::string log_level = "info";
};

struct SettingRow {
  const char* key;
  const char* type;  ///< "integer", "bytes", "number", "choice", "path", "boolean"
  const char* default_value;
  const char* range;
  const char* help;
  Status (*apply)(const SettingRow& row, std::string_view value, Settings& settings);
};

std::span<const SettingRow> setting_rows();

/// Sets one value. kUsage: an unknown key (names the nearest) or a value out of range (names the range).
Status apply_setting(std::string_view key, std::string_view value, Settings& settings);

/// "512", "8K", "1.5G" in powers of 1024. Negative: not a size.
int64_t parse_bytes(std::string_view text);

}  // namespace colibri::engine
