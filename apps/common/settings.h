// The effective settings of a run and where each came from.
//
// Order: flag, environment (COLIBRI_<KEY>), --config FILE, colibri_config.json beside the model, default. The table is
// the library's (colibri_setting_at) and the program's own rows, those of the server; nothing here knows a key by name.
// Every value is checked where it was written, so that the error names the flag, the variable, or the file and its
// line.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/failure.h"

namespace colibri::common {

/// A row beside the library's table.
struct OwnSetting {
  colibri_setting_info info;
  Status (*check)(const std::string& value);  ///< the error names the value and the range
};
using OwnSettings = std::span<const OwnSetting>;

struct SettingsSources {
  std::vector<std::pair<std::string, std::string>> flags;  ///< key, value, as on the command line
  std::string config_file;                                 ///< --config, or empty
  std::string model;                                       ///< path, or empty
  OwnSettings own = {};
  /// What a command prefers to the defaults of the library's table.
  std::vector<std::pair<std::string, std::string>> defaults = {};
};

struct Setting {
  std::string key, value;
  std::string origin;               ///< "--threads", "COLIBRI_THREADS", "FILE:LINE", "default"
  const OwnSetting* own = nullptr;  ///< its row, when it is none of the library's
  bool is_default() const { return origin == "default"; }
};

class Settings {
 public:
  static Outcome<Settings> load(const SettingsSources& sources);

  const std::vector<Setting>& all() const { return settings_; }  ///< in the order of the table
  /// REQUIRES: the key is in the table.
  const Setting& at(const std::string& key) const;
  /// What colibri_open wants: everything of the library's that is not the default.
  std::vector<std::pair<std::string, std::string>> chosen() const;

 private:
  Status merge(const std::string& key, const std::string& value, const std::string& origin);
  Status check(const std::string& key, const std::string& value);
  Error unknown(const std::string& key) const;
  Status merge_flags(const SettingsSources& sources);
  Status merge_environment();
  Status merge_file(const std::string& path, bool beside_model);
  Setting* find(const std::string& key);

  std::vector<Setting> settings_;
};

/// "--expert-cache-policy" of "expert_cache_policy".
std::string flag_of(const std::string& key);

/// Refuses COLIBRI_* variables that nobody reads.
Status check_environment_names(OwnSettings own);

}  // namespace colibri::common
