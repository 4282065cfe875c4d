#include "base/json.h"

#include "base/check.h"

namespace colibri {

// Beyond int64 the value is the nearest double, as in parsing.
Json::Json(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX)) {
    value_ = static_cast<int64_t>(value);
  } else {
    value_ = static_cast<double>(value);
  }
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& member : as_object())
    if (member.first == key) return &member.second;
  return nullptr;
}

const Json* Json::find_value(std::string_view key) const {
  const Json* value = find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

Json& Json::set(std::string_view key, Json value) {
  if (is_null()) value_ = Object();
  COLIBRI_CHECK(is_object());
  for (Member& member : as_object()) {
    if (member.first != key) continue;
    member.second = std::move(value);
    return *this;
  }
  as_object().emplace_back(std::string(key), std::move(value));
  return *this;
}

Json& Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  COLIBRI_CHECK(is_array());
  as_array().push_back(std::move(value));
  return *this;
}

}  // namespace colibri
