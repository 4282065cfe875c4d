#include "formats/strict_object.h"

#include <algorithm>
#include <utility>

#include "formats/layout.h"

namespace colibri::formats {
namespace {

constexpr int64_t kMostInputs = 1 << 24;  // of a group

bool is_off(const Json& value) {
  if (value.is_object()) return value.as_object().empty();
  if (value.is_array()) return value.as_array().empty();
  return value.is_bool() && !value.as_bool();
}

}  // namespace

StrictObject::StrictObject(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) fail(ErrorCode::kInvalidModel, where_ + " is no object");
}

const Json* StrictObject::find(std::string_view key) {
  known_.emplace_back(key);
  return object_.find_value(key);
}

std::string StrictObject::text(std::string_view key, std::string_view fallback) {
  const Json* value = find(key);
  if (value != nullptr && value->is_string()) return value->as_string();
  if (value != nullptr) wrong(key, "a string");
  return std::string(fallback);
}

bool StrictObject::flag(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value != nullptr && value->is_bool()) return value->as_bool();
  if (value != nullptr) wrong(key, "true or false");
  return fallback;
}

int64_t StrictObject::number(std::string_view key, int64_t fallback) {
  const Json* value = find(key);
  if (value != nullptr && value->is_int()) return value->as_int();
  if (value != nullptr) wrong(key, "a whole number");
  return fallback;
}

int64_t StrictObject::group_size(std::string_view key, int64_t fallback) {
  const int64_t size = number(key, fallback);
  if (size == -1) return 0;
  if (size >= 1 && size <= kMostInputs) return size;
  wrong(key, "-1 or a number of inputs");
  return 1;
}

void StrictObject::must_be_off(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const Json* value = find(key);
    if (value != nullptr && !is_off(*value)) unsupported(key, "has no decoder here");
  }
}

void StrictObject::ignore(std::string_view keys) {
  while (!keys.empty()) {
    const size_t end = std::min(keys.find(' '), keys.size());
    known_.emplace_back(keys.substr(0, end));
    keys.remove_prefix(std::min(end + 1, keys.size()));
  }
}

void StrictObject::wrong(std::string_view key, const std::string& expected) {
  fail(ErrorCode::kInvalidModel, where_ + ": " + quoted(key) + " is " + value_text(key) + ", expected " + expected);
}

void StrictObject::unsupported(std::string_view key, const std::string& what) {
  fail(ErrorCode::kUnsupported, where_ + ": " + quoted(key) + " is " + value_text(key) + ", which " + what + kInstead);
}

Status StrictObject::finish() {
  if (object_.is_object())
    for (const auto& [key, value] : object_.as_object())
      if (!value.is_null() && std::find(known_.begin(), known_.end(), key) == known_.end())
        unsupported(key, "is not known here and may change the weights");
  if (error_) return *error_;
  return {};
}

std::string StrictObject::value_text(std::string_view key) const {
  const Json* value = object_.find(key);
  if (value == nullptr) return "missing";
  return quoted(value->is_string() ? value->as_string() : value->dump());
}

void StrictObject::fail(ErrorCode code, std::string message) {
  if (!error_) error_ = Error{code, std::move(message)};
}

}  // namespace colibri::formats
