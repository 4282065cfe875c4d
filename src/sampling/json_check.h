// For tests: a JSON reader and a checker of schemas that know nothing of the code that they check.
//
// The reader takes RFC 8259 alone, and keeps the last of equal keys, as most readers do. The checker knows the keywords
// that the tests use. Thread-safety: free functions.
#pragma once

#include <cstdlib>
#include <optional>
#include <regex>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/utf8.h"

namespace colibri::sampling {

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}
  std::optional<Json> read() {
    if (!text::is_valid_utf8(text_)) return std::nullopt;
    Json value = this->value();
    return ok_ && at_ == text_.size() ? std::optional(value) : std::nullopt;
  }

 private:
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  void need(std::string_view what) { ok_ = take(what) && ok_; }
  void blank() {
    while (take(" ") || take("\n")) {
    }
  }

  Json value() {
    if (take("{")) return object();
    if (take("[")) return array();
    if (take("\"")) return string();
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("null")) return nullptr;
    return number();
  }

  Json object() {
    Json out(Json::Object{});
    blank();
    if (take("}")) return out;
    do {
      blank();
      need("\"");
      const std::string key = string();
      need(":");
      blank();
      out.set(key, value());
      blank();
    } while (ok_ && take(","));
    need("}");
    return out;
  }

  Json array() {
    Json out(Json::Array{});
    blank();
    if (take("]")) return out;
    do {
      blank();
      out.push_back(value());
      blank();
    } while (ok_ && take(","));
    need("]");
    return out;
  }

  std::string string() {
    std::string out;
    while (ok_ && !take("\"")) {
      if (at_ >= text_.size() || static_cast<uint8_t>(text_[at_]) < 0x20) return ok_ = false, out;
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      const size_t kind = std::string_view("\"\\/bfnrtu").find(text_.substr(++at_, 1));
      ok_ = kind != std::string_view::npos && at_++ < text_.size();
      if (ok_) kind < 8 ? static_cast<void>(out += "\"\\/\b\f\n\r\t"[kind]) : text::append_utf8(unicode(), out);
    }
    return out;
  }

  char32_t hex() {
    const std::string digits(text_.substr(at_, 4));
    ok_ = ok_ && digits.size() == 4 && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    at_ += 4;
    return ok_ ? static_cast<char32_t>(std::stoul(digits, nullptr, 16)) : 0;
  }

  char32_t unicode() {
    const char32_t first = hex();
    if (first < 0xD800 || first >= 0xE000) return first;
    need("\\u");
    const char32_t second = hex();
    ok_ = ok_ && first < 0xDC00 && second >= 0xDC00 && second < 0xE000;
    return ok_ ? 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00) : '?';
  }

  Json number() {
    static const std::regex kForm(R"(^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)");
    const std::string rest(text_.substr(at_, 80));
    std::smatch match;
    if (!std::regex_search(rest, match, kForm)) return ok_ = false, Json();
    at_ += static_cast<size_t>(match.length());
    if (match[2].length() + match[3].length() > 0) return std::strtod(match.str().c_str(), nullptr);
    return static_cast<int64_t>(std::strtoll(match.str().c_str(), nullptr, 10));
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
};

inline std::optional<Json> read_json(std::string_view text) { return JsonReader(text).read(); }

inline int64_t n_characters(std::string_view text) {
  int64_t n = 0;
  for (size_t at = 0; at < text.size(); ++n) text::next_character(text, at);
  return n;
}

inline bool has_type(const Json& value, std::string_view type) {
  return type == "object"    ? value.is_object()
         : type == "array"   ? value.is_array()
         : type == "string"  ? value.is_string()
         : type == "integer" ? value.is_int()
         : type == "number"  ? value.is_number()
         : type == "boolean" ? value.is_bool()
                             : type == "null" && value.is_null();
}

/// References: "#" and "#/$defs/NAME".
inline bool satisfies(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_bool()) return schema.as_bool();
  const auto limit = [&](const char* key, double otherwise) {
    const Json* bound = schema.find(key);
    return bound ? bound->as_double() : otherwise;
  };
  const auto within = [&](const char* low, const char* high, double x) {
    return x >= limit(low, -1e300) && x <= limit(high, 1e300);
  };
  if (const Json* ref = schema.find("$ref")) {
    const std::string& name = ref->as_string();
    if (!satisfies(value, name == "#" ? root : *root.find("$defs")->find(name.substr(8)), root)) return false;
  }
  if (const Json* any = schema.find("anyOf")) {
    bool one = false;
    for (const Json& alternative : any->as_array()) one = one || satisfies(value, alternative, root);
    if (!one) return false;
  }
  if (const Json* type = schema.find("type"); type && !has_type(value, type->as_string())) return false;
  if (const Json* list = schema.find("enum")) {
    bool found = false;
    for (const Json& item : list->as_array()) found = found || item == value;
    if (!found) return false;
  }
  if (value.is_number() && !within("minimum", "maximum", value.as_double())) return false;
  if (value.is_string()) {
    const auto n = static_cast<double>(n_characters(value.as_string()));
    if (!within("minLength", "maxLength", n)) return false;
    const Json* pattern = schema.find("pattern");
    if (pattern && !std::regex_search(value.as_string(), std::regex(pattern->as_string()))) return false;
  }
  if (value.is_array()) {
    if (!within("minItems", "maxItems", static_cast<double>(value.as_array().size()))) return false;
    const Json* items = schema.find("items");
    for (const Json& item : value.as_array())
      if (items && !satisfies(item, *items, root)) return false;
  }
  if (value.is_object()) {
    const Json* named = schema.find("properties");
    const Json* others = schema.find("additionalProperties");
    for (const auto& [key, member] : value.as_object()) {
      const Json* own = named ? named->find(key) : nullptr;
      if (own ? !satisfies(member, *own, root) : others && !satisfies(member, *others, root)) return false;
    }
    if (const Json* required = schema.find("required"))
      for (const Json& name : required->as_array())
        if (!value.find(name.as_string())) return false;
  }
  return true;
}

}  // namespace colibri::sampling
