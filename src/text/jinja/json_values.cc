#include "text/jinja/json_values.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style), out_(rt.heap) {}

  Value finish() { return out_.finish_string(); }

  Status write(const Value& value, int depth) {
    COLIBRI_TRY(rt_.step());
    if (depth > kMaxDataDepth) return rt_.fail({"tojson: data nested deeper than ", std::to_string(kMaxDataDepth)});
    switch (value.kind()) {
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_.append(scalar(value));
        return {};
      case Kind::kString:
        return write_string(value.as_string());
      case Kind::kList:
      case Kind::kTuple:
        return write_list(value.items(), depth);
      case Kind::kDict:
        return write_dict(value.as_dict(), depth);
      default:
        return unsupported(rt_, "in JSON", value);
    }
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (value.is(Kind::kBool)) return value.as_bool() ? "true" : "false";
    if (value.is(Kind::kInt)) return std::to_string(value.as_int());
    const double number = value.as_double();
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_repr(number);
  }

  Status write_string(std::string_view text) {
    COLIBRI_TRY(rt_.step_bytes(text.size()));
    std::string quoted = "\"";
    for (size_t pos = 0; pos < text.size();) {
      const size_t start = pos;
      append_char(quoted, next_code_point(text, pos), text.substr(start, code_point_bytes(text[start])));
    }
    quoted.push_back('"');
    out_.append(quoted);
    return {};
  }

  void append_char(std::string& quoted, char32_t c, std::string_view bytes) const {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    const size_t special = c < 0x80 ? kSpecial.find(static_cast<char>(c)) : std::string_view::npos;
    if (special != std::string_view::npos) {
      quoted.push_back('\\');
      quoted.push_back(kLetters[special]);
    } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7f && c < 0x10000)) {
      append_unit(quoted, c);
    } else if (style_.ensure_ascii && c >= 0x10000) {
      append_unit(quoted, 0xd800 + ((c - 0x10000) >> 10));
      append_unit(quoted, 0xdc00 + ((c - 0x10000) & 0x3ff));
    } else {
      quoted.append(bytes);
    }
  }

  static void append_unit(std::string& quoted, char32_t unit) {
    constexpr char kDigits[] = "0123456789abcdef";
    quoted.append("\\u");
    for (int shift = 12; shift >= 0; shift -= 4) quoted.push_back(kDigits[unit >> shift & 15]);
  }

  void new_line(int depth) {
    if (!style_.has_indent) return;
    out_.append("\n");
    out_.append(static_cast<uint64_t>(depth), style_.indent);
  }

  Status write_list(std::span<const Value> items, int depth) {
    if (items.empty()) {
      out_.append("[]");
      return {};
    }
    out_.append("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line(depth + 1);
      COLIBRI_TRY(write(items[i], depth + 1));
    }
    new_line(depth);
    out_.append("]");
    return {};
  }

  Status write_dict(const Dict& dict, int depth) {
    if (dict.size == 0) {
      out_.append("{}");
      return {};
    }
    out_.append("{");
    for (uint32_t i = 0; i < dict.size; ++i) {
      const DictEntry& entry = dict.entries[style_.sort_keys ? dict.sorted[i] : i];
      if (i > 0) out_.append(style_.item_separator);
      new_line(depth + 1);
      COLIBRI_TRY(write_key(entry.key));
      out_.append(style_.key_separator);
      COLIBRI_TRY(write(entry.value, depth + 1));
    }
    new_line(depth);
    out_.append("}");
    return {};
  }

  Status write_key(const Value& key) {
    if (key.is_string()) return write_string(key.as_string());
    if (!key.is_none() && !key.is_number()) return unsupported(rt_, "as a key in JSON", key);
    return write_string(scalar(key));
  }

  Runtime& rt_;
  const JsonStyle& style_;
  TextBuilder out_;
};

Result<Value> string_value(Runtime& rt, const std::string& string, TextIs text) {
  if (string.size() > UINT32_MAX) return rt.fail("a string of more than 4 GiB");
  if (text == TextIs::kBorrowed) return Value::string(string);
  TextBuilder copy(rt.heap);
  copy.append(string);
  return copy.finish_string();
}

Result<Value> list_of_json(Runtime& rt, const Json::Array& array, TextIs text, int depth) {
  ListBuilder list(rt.heap);
  for (const Json& item : array) {
    COLIBRI_ASSIGN(const Value value, value_of_json(rt, item, text, depth + 1));
    list.push(value);
  }
  return list.finish_list();
}

Result<Value> dict_of_json(Runtime& rt, const Json::Object& object, TextIs text, int depth) {
  DictBuilder dict(rt.heap);
  for (const auto& [key, item] : object) {
    COLIBRI_ASSIGN(const Value name, string_value(rt, key, text));
    COLIBRI_ASSIGN(const Value value, value_of_json(rt, item, text, depth + 1));
    dict.set(name, value);
  }
  return dict.finish_dict();
}

}  // namespace

Result<Value> value_of_json(Runtime& rt, const Json& json, TextIs text, int depth) {
  if (depth > kMaxDataDepth) return rt.fail({"JSON nested deeper than ", std::to_string(kMaxDataDepth)});
  if (json.is_null()) return Value::none();
  if (json.is_bool()) return Value::boolean(json.as_bool());
  if (json.is_int()) return Value::integer(json.as_int());
  if (json.is_double()) return Value::real(json.as_double());
  if (json.is_array()) return list_of_json(rt, json.as_array(), text, depth);
  if (json.is_object()) return dict_of_json(rt, json.as_object(), text, depth);
  return string_value(rt, json.as_string(), text);
}

Result<Value> value_to_json(Runtime& rt, const Value& value, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  COLIBRI_TRY(writer.write(value, 0));
  return writer.finish();
}

}  // namespace colibri::text::jinja
