// JSON as a value: what configs, tokenizer files, chat messages and reports are read into and written from.
//
// Parsing is strict and bounded: RFC 8259, valid UTF-8, nesting at most `max_depth`, no duplicate keys (an error that
// names the key). Beyond the RFC it accepts the bare words Infinity, -Infinity and NaN, which published configs hold,
// and reads transformers' {"__float__": "Infinity"} as the number. Objects keep the order of their keys. Integers stay
// integers: 1 is int64, 1.0 is double; an integer beyond int64 becomes a double, one beyond double (1e999 too) is an
// error. Thread-safety: a value may be read from several threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace colibri {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in the order of the text

  // NOLINTBEGIN(google-explicit-constructor): values turn into Json where they are written
  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int64_t value) : value_(value) {}
  Json(int value) : value_(static_cast<int64_t>(value)) {}
  Json(uint64_t value);
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return value_.index() == 1; }
  bool is_int() const { return value_.index() == 2; }
  bool is_double() const { return value_.index() == 3; }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return value_.index() == 4; }
  bool is_array() const { return value_.index() == 5; }
  bool is_object() const { return value_.index() == 6; }

  /// REQUIRES: the kind is the one asked for.
  bool as_bool() const { return std::get<1>(value_); }
  int64_t as_int() const { return std::get<2>(value_); }
  double as_double() const { return is_int() ? static_cast<double>(std::get<2>(value_)) : std::get<3>(value_); }
  const std::string& as_string() const { return std::get<4>(value_); }
  const Array& as_array() const { return std::get<5>(value_); }
  const Object& as_object() const { return std::get<6>(value_); }
  std::string& as_string() { return std::get<4>(value_); }
  Array& as_array() { return std::get<5>(value_); }
  Object& as_object() { return std::get<6>(value_); }

  /// The member `key`, or nullptr when this is no object or has no such member.
  const Json* find(std::string_view key) const;
  /// Like find, but a member that is null counts as absent.
  const Json* find_value(std::string_view key) const;
  /// Adds or replaces a member. REQUIRES: object or null (null becomes an object).
  Json& set(std::string_view key, Json value);
  /// Appends. REQUIRES: array or null (null becomes an array).
  Json& push_back(Json value);

  /// The text of this value, as Python's json.dumps(ensure_ascii=False) lays it out. `indent` < 0: on one line, ", "
  /// and
  /// ": " as separators; else that many blanks per level. Doubles have the fewest digits that read back as the same
  /// value. The text is always valid JSON and UTF-8: infinities and NaN become {"__float__": "Infinity"}, which
  /// parse_json reads back; bytes of a string that are no UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

  bool operator==(const Json& other) const = default;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

struct JsonLimits {
  int max_depth = 64;
};

/// Parses one JSON text; blank space may surround it. Errors (kInvalidModel) say line, column (in characters) and why;
/// a duplicate key is reported at the end of its object. The caller adds the file.
Result<Json> parse_json(std::string_view text, JsonLimits limits = {});

}  // namespace colibri
