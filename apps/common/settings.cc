#include "common/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "common/input.h"
#include "common/json.h"
#include "common/nearest.h"

namespace colibri::common {
namespace {

constexpr std::string_view kPrefix = "COLIBRI_";
constexpr const char* kModelConfig = "colibri_config.json";

// Variables that are no settings: the model, and what the project's own tests are told by.
constexpr const char* kOtherVariables[] = {"COLIBRI_MODEL", "COLIBRI_SHARED", "COLIBRI_BIN"};

// What a converted model's colibri_config.json says about its weights; the loader checks it, it is nothing to set.
constexpr std::string_view kModelFacts[] = {"num_experts", "top_k", "hidden_size", "vocab_size", "weight_format"};

std::string variable_of(const std::string& key) {
  std::string name(kPrefix);
  for (const char c : key) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::vector<std::string> known_variables(OwnSettings own) {
  std::vector<std::string> names(std::begin(kOtherVariables), std::end(kOtherVariables));
  for (const colibri_setting_info* info : api::setting_infos()) names.push_back(variable_of(info->key));
  for (const OwnSetting& row : own) names.push_back(variable_of(row.info.key));
  return names;
}

// The value as the command line would say it; nothing for null, arrays and objects.
std::optional<std::string> scalar_text(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string().data(), value.get_string().size());
  if (value.is_structured() || value.is_null()) return std::nullopt;
  return dump_json(value);
}

// "FILE:LINE" of a key: the first place where it stands as a key.
std::string place_of(const std::string& path, std::string_view text, const std::string& key) {
  std::string quoted;
  append_json_string(quoted, key);
  for (size_t at = text.find(quoted); at != text.npos; at = text.find(quoted, at + 1)) {
    const size_t after = text.find_first_not_of(" \t\r\n", at + quoted.size());
    if (after != text.npos && text[after] == ':') {
      return path + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
    }
  }
  return path;
}

std::string config_beside(const std::string& model) {
  std::error_code ignored;
  const std::filesystem::path path(model);
  const auto folder = std::filesystem::is_directory(path, ignored) ? path : path.parent_path();
  return (folder / kModelConfig).string();
}

bool is_fact(std::string_view key) {
  return std::find(std::begin(kModelFacts), std::end(kModelFacts), key) != std::end(kModelFacts);
}

}  // namespace

std::string flag_of(const std::string& key) {
  std::string flag = "--" + key;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

Status check_environment_names(OwnSettings own) {
  const std::vector<std::string> known = known_variables(own);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(kPrefix) || std::find(known.begin(), known.end(), name) != known.end()) continue;
    return usage_error("the environment variable " + name + " is unknown; did you mean " + nearest(name, known) +
                       "? Unset it, or see `colibri config`");
  }
  return {};
}

Outcome<Settings> Settings::load(const SettingsSources& sources) {
  Settings settings;
  for (const colibri_setting_info* info : api::setting_infos()) {
    settings.settings_.push_back({info->key, info->default_value, "default"});
  }
  for (const OwnSetting& row : sources.own) {
    settings.settings_.push_back({row.info.key, row.info.default_value, "default", &row});
  }
  for (const auto& [key, value] : sources.defaults) {
    if (const Status merged = settings.merge(key, value, "default of this command"); !merged) return merged.error();
  }
  // From the weakest source to the strongest; each replaces what was there.
  if (!sources.model.empty()) {
    const Status merged = settings.merge_file(config_beside(sources.model), true);
    if (!merged) return merged.error();
  }
  if (!sources.config_file.empty()) {
    const Status merged = settings.merge_file(sources.config_file, false);
    if (!merged) return merged.error();
  }
  if (const Status merged = settings.merge_environment(); !merged) return merged.error();
  if (const Status merged = settings.merge_flags(sources); !merged) return merged.error();
  return settings;
}

Setting* Settings::find(const std::string& key) {
  const auto found = std::find_if(settings_.begin(), settings_.end(), [&](const Setting& s) { return s.key == key; });
  return found == settings_.end() ? nullptr : &*found;
}

const Setting& Settings::at(const std::string& key) const { return *const_cast<Settings*>(this)->find(key); }

std::vector<std::pair<std::string, std::string>> Settings::chosen() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Setting& setting : settings_) {
    if (!setting.is_default() && setting.own == nullptr) pairs.emplace_back(setting.key, setting.value);
  }
  return pairs;
}

Error Settings::unknown(const std::string& key) const {
  std::vector<std::string> keys;
  for (const Setting& setting : settings_) keys.push_back(setting.key);
  return usage_error("unknown setting \"" + key.substr(0, 100) + "\"; the nearest is " + nearest(key, keys));
}

Status Settings::check(const std::string& key, const std::string& value) {
  const Setting* setting = find(key);
  if (setting == nullptr) return unknown(key);
  return setting->own != nullptr ? setting->own->check(value) : api::check_setting(key, value);
}

Status Settings::merge(const std::string& key, const std::string& value, const std::string& origin) {
  if (const Status checked = check(key, value); !checked) return with_context(checked.error(), origin);
  Setting* setting = find(key);
  setting->value = value;
  setting->origin = origin;
  return {};
}

Status Settings::merge_flags(const SettingsSources& sources) {
  for (const auto& [key, value] : sources.flags) {
    if (Status merged = merge(key, value, flag_of(key)); !merged) return merged;
  }
  return {};
}

Status Settings::merge_environment() {
  for (Setting& setting : settings_) {
    const std::string name = variable_of(setting.key);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) continue;
    if (Status merged = merge(setting.key, value, name); !merged) return merged;
  }
  return {};
}

Status Settings::merge_file(const std::string& path, bool beside_model) {
  if (beside_model && ::access(path.c_str(), F_OK) != 0) return {};
  const auto text = read_file(path);
  if (!text) return text.error();
  const auto parsed = parse_json(*text, path);
  if (!parsed) return parsed.error();
  if (!parsed->is_object()) return usage_error(path + ": must be a JSON object of settings");
  for (const auto& [name, json_value] : parsed->get_object()) {
    const std::string key(name.data(), name.size());
    if (beside_model && is_fact(key)) continue;
    const std::string place = place_of(path, *text, key);
    const auto value = scalar_text(json_value);
    if (find(key) != nullptr && !value)
      return with_context(usage_error(std::string(key).append(" must be a text, number or boolean")), place);
    if (const Status merged = merge(key, value.value_or(""), place); !merged) return merged;
  }
  return {};
}

}  // namespace colibri::common
