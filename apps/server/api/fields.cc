#include "fields.h"

#include <algorithm>
#include <cmath>

namespace colibri::server {
namespace {

std::string shown(double value) {
  std::string text = common::dump_json(json::value(value));
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string range(double low, double high) { return "from " + shown(low) + " to " + shown(high); }

// 1 and 1.0 are the same.
bool same(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  return a == b;
}

}  // namespace

ApiError bad_request(std::string param, std::string message, std::string code) {
  return {400, std::move(message), std::move(code), std::move(param), {}, 0};
}

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      return "an object";
    case json::kind::array:
      return "an array";
    case json::kind::string:
      return "a string";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::null:
      return "null";
    default:
      return "a number";
  }
}

std::optional<int64_t> whole_number(const json::value& value) {
  if (const int64_t* number = value.if_int64()) return *number;
  const double* number = value.if_double();
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, doubles are no longer every whole number
  if (number == nullptr || !(std::fabs(*number) <= kExact) || *number != std::floor(*number)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

void Fields::fail(std::string_view name, std::string message, std::string code) {
  if (ok()) error_ = bad_request(name_of(name), name_of(name) + ": " + message, std::move(code));
}

void Fields::fail(const std::optional<ApiError>& error) {
  if (ok()) error_ = error;
}

std::string Fields::name_of(std::string_view name) const {
  if (path_.empty() || name.empty()) return path_ + std::string(name);
  return path_ + "." + std::string(name);
}

const json::value* Fields::find(std::string_view name) {
  known_.push_back(name);
  if (!ok()) return nullptr;
  const json::value* value = object_->if_contains(json::string_view(name.data(), name.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool Fields::boolean(std::string_view name, bool& out) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  if (!value->is_bool()) return fail(name, "expected true or false, got " + std::string(kind_of(*value))), false;
  out = value->get_bool();
  return true;
}

bool Fields::integer(std::string_view name, int64_t low, int64_t high, int64_t& out) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  const std::optional<int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    const std::string got = value->is_number() ? common::dump_json(*value) : std::string(kind_of(*value));
    fail(name, "expected a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", got " + got);
    return false;
  }
  out = *number;
  return true;
}

bool Fields::number(std::string_view name, double low, double high, double& out) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  if (!value->is_number())
    return fail(name, "expected a number " + range(low, high) + ", got " + std::string(kind_of(*value))), false;
  const double number = value->to_number<double>();
  if (!(number >= low && number <= high))
    return fail(name, "expected a number " + range(low, high) + ", got " +
                          (std::isfinite(number) ? shown(number) : "one beyond all bounds")),
           false;
  out = number == 0 ? 0 : number;  // no -0
  return true;
}

bool Fields::text(std::string_view name, std::string& out) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  if (!value->is_string()) return fail(name, "expected a string, got " + std::string(kind_of(*value))), false;
  out = view(value->get_string());
  return true;
}

bool Fields::choice(std::string_view name, std::initializer_list<std::string_view> choices, std::string& out) {
  std::string chosen;
  if (!text(name, chosen)) return false;
  if (std::find(choices.begin(), choices.end(), chosen) != choices.end()) return out = std::move(chosen), true;
  std::string list;
  for (const std::string_view one : choices) list.append(list.empty() ? "" : ", ").append(one);
  fail(name, "expected one of " + list + ", got \"" + chosen.substr(0, 60) + "\"");
  return false;
}

const json::object* Fields::object(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) fail(name, "expected an object, got " + std::string(kind_of(*value)));
  return value->if_object();
}

const json::array* Fields::array(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) fail(name, "expected an array, got " + std::string(kind_of(*value)));
  return value->if_array();
}

bool Fields::texts(std::string_view name, size_t most, std::vector<std::string>& out) {
  const json::value* value = find(name);
  if (value == nullptr) return false;
  if (const json::string* one = value->if_string()) return out.assign(1, std::string(view(*one))), true;
  const json::array* list = value->if_array();
  if (list == nullptr) {
    fail(name, "expected a string or an array of strings, got " + std::string(kind_of(*value)));
    return false;
  }
  if (list->size() > most) {
    fail(name, "at most " + std::to_string(most) + " strings, got " + std::to_string(list->size()));
    return false;
  }
  out.clear();
  for (const json::value& one : *list) {
    if (!one.is_string()) return fail(name, "expected strings, got " + std::string(kind_of(one))), false;
    out.emplace_back(view(one.get_string()));
  }
  return true;
}

void Fields::refuse(std::string_view name, const json::value& neutral, std::string_view why) {
  const json::value* value = find(name);
  if (value != nullptr && !same(*value, neutral)) fail(name, std::string(why), "unsupported_parameter");
}

void Fields::accept(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& member : *object_) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) names.emplace_back(name);
  }
  return names;
}

}  // namespace colibri::server
