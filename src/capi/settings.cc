#include "engine/settings.h"

#include <vector>

#include "capi/border.h"

using namespace colibri;

namespace {

// colibri_setting_info has the columns of SettingRow without its function.
const std::vector<colibri_setting_info>& infos() {
  static const std::vector<colibri_setting_info> kInfos = [] {
    std::vector<colibri_setting_info> list;
    for (const engine::SettingRow& row : engine::setting_rows())
      list.push_back({row.key, row.type, row.default_value, row.range, row.help});
    return list;
  }();
  return kInfos;
}

}  // namespace

extern "C" {

size_t colibri_setting_count(void) { return engine::setting_rows().size(); }

const colibri_setting_info* colibri_setting_at(size_t index) {
  return index < infos().size() ? &infos()[index] : nullptr;
}

colibri_status colibri_setting_check(const char* key, const char* value, colibri_error* error) {
  return capi::guarded(error, [&]() -> Status {
    if (key == nullptr) return capi::missing_argument("key");
    if (value == nullptr) return capi::missing_argument("value");
    engine::Settings scratch;
    return engine::apply_setting(key, value, scratch);
  });
}

}  // extern "C"
