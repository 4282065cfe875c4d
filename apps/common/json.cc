#include "common/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <vector>

namespace colibri::common {
namespace {

constexpr size_t kMaxDepth = 64;

// Looks at the keys only: boost::json keeps the last of several equal keys without a word.
class DuplicateKeys {
 public:
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  using Code = boost::system::error_code;

  const std::string& duplicate() const { return duplicate_; }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return keys_.emplace_back(), true; }
  bool on_object_end(size_t, Code&) { return keys_.pop_back(), true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(size_t, Code&) { return true; }
  bool on_key_part(json::string_view part, size_t, Code&) { return key_.append(part.data(), part.size()), true; }
  bool on_key(json::string_view part, size_t, Code& code) {
    key_.append(part.data(), part.size());
    if (!keys_.back().insert(key_).second) {
      duplicate_ = key_;
      code = json::error::syntax;
      return false;
    }
    return key_.clear(), true;
  }
  bool on_string_part(json::string_view, size_t, Code&) { return true; }
  bool on_string(json::string_view, size_t, Code&) { return true; }
  bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(int64_t, json::string_view, Code&) { return true; }
  bool on_uint64(uint64_t, json::string_view, Code&) { return true; }
  bool on_double(double, json::string_view, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }

 private:
  std::vector<std::unordered_set<std::string>> keys_;  // one set per object that is open
  std::string key_, duplicate_;
};

json::parse_options strict() {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  return options;
}

std::string place(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
  return "line " + std::to_string(line) + " column " + std::to_string(before.size() - line_start + 1);
}

void append_number(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto [end, code] = std::to_chars(digits, digits + sizeof(digits), number);
  out.append(digits, end);
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}
  std::string take() { return std::move(out_); }

  void write(const json::value& value, int level) {
    switch (value.kind()) {
      case json::kind::object:
        return write_object(value.get_object(), level);
      case json::kind::array:
        return write_array(value.get_array(), level);
      case json::kind::string:
        return append_json_string(out_, std::string_view(value.get_string().data(), value.get_string().size()));
      case json::kind::int64:
        out_ += std::to_string(value.get_int64());
        return;
      case json::kind::uint64:
        out_ += std::to_string(value.get_uint64());
        return;
      case json::kind::double_:
        return append_number(out_, value.get_double());
      case json::kind::bool_:
        out_ += value.get_bool() ? "true" : "false";
        return;
      case json::kind::null:
        out_ += "null";
    }
  }

 private:
  void write_object(const json::object& object, int level) {
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : object) {
      separate(first, indent_ >= 0, level + 1);
      append_json_string(out_, std::string_view(key.data(), key.size()));
      out_ += ": ";
      write(value, level + 1);
    }
    close('}', !first && indent_ >= 0, level);
  }

  void write_array(const json::array& array, int level) {
    const bool lines =
        indent_ >= 0 && std::any_of(array.begin(), array.end(), [](const json::value& v) { return v.is_structured(); });
    out_ += '[';
    bool first = true;
    for (const json::value& value : array) {
      separate(first, lines, level + 1);
      write(value, level + 1);
    }
    close(']', lines, level);
  }

  void separate(bool& first, bool lines, int level) {
    if (!first) out_ += lines ? "," : ", ";
    if (lines) new_line(level);
    first = false;
  }
  void close(char bracket, bool lines, int level) {
    if (lines) new_line(level);
    out_ += bracket;
  }
  void new_line(int level) {
    out_ += '\n';
    out_.append(static_cast<size_t>(level) * static_cast<size_t>(indent_), ' ');
  }

  int indent_;
  std::string out_;
};

}  // namespace

Outcome<json::value> parse_json(std::string_view text, const std::string& source) {
  boost::system::error_code code;
  json::basic_parser<DuplicateKeys> keys(strict());
  const size_t read = keys.write_some(false, text.data(), text.size(), code);
  if (!code && text.find_first_not_of(" \t\r\n", read) != text.npos) code = json::error::extra_data;
  if (!keys.handler().duplicate().empty()) {
    return usage_error(source + ": the key \"" + keys.handler().duplicate() + "\" stands twice, " + place(text, read));
  }
  if (code == json::error::too_deep)
    return usage_error(source + ": nested deeper than " + std::to_string(kMaxDepth) + " levels, " + place(text, read));
  if (code) return usage_error(source + ": not JSON (" + code.message() + "), " + place(text, read));
  json::value value = json::parse(text, code, {}, strict());
  if (code) return usage_error(source + ": not JSON (" + code.message() + ")");
  return value;
}

std::string dump_json(const json::value& value, int indent) {
  Writer writer(indent);
  writer.write(value, 0);
  return writer.take();
}

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

std::optional<TokenIds> token_ids(const json::array& array, size_t* bad_index) {
  TokenIds ids;
  ids.reserve(array.size());
  for (const json::value& value : array) {
    const int64_t* number = value.if_int64();
    if (number == nullptr || *number < INT32_MIN || *number > INT32_MAX) {
      *bad_index = ids.size();
      return std::nullopt;
    }
    ids.push_back(static_cast<int32_t>(*number));
  }
  return ids;
}

}  // namespace colibri::common
