#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/json.h"

namespace colibri {
namespace {

// Length of the UTF-8 character at the front of a text, 0 when there is none (overlong, surrogate, cut off).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool overlong = lead == 0xe0 && byte(1) < 0xa0, surrogate = lead == 0xed && byte(1) > 0x9f;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool overlong = lead == 0xf0 && byte(1) < 0x90, beyond = lead == 0xf4 && byte(1) > 0x8f;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

void append_escape(unsigned char c, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
  }
}

void append_string(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const size_t length = utf8_length(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";  // U+FFFD: the output is valid whatever the string holds
    } else if (c < 0x20 || c == '"' || c == '\\') {
      append_escape(c, out);
    } else {
      out.append(text, 0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

// The shortest digits that read back as the same double, laid out as Python does: 1.0, 0.0001, 1e-05, 1e+16.
void append_finite(double value, std::string& out) {
  std::array<char, 32> digits;
  const auto scientific = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::scientific);
  const std::string_view text(digits.data(), static_cast<size_t>(scientific.ptr - digits.data()));
  const int exponent = std::atoi(std::string(text.substr(text.find('e') + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    out += text;
    return;
  }
  const auto fixed = std::to_chars(digits.begin(), digits.end(), value, std::chars_format::fixed);
  const std::string_view plain(digits.data(), static_cast<size_t>(fixed.ptr - digits.data()));
  out += plain;
  if (plain.find('.') == std::string_view::npos) out += ".0";  // a double stays a double
}

void append_double(double value, std::string& out) {
  if (std::isfinite(value)) return append_finite(value, out);
  const char* word = std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  out.append("{\"__float__\": \"").append(word).append("\"}");
}

class Dumper {
 public:
  explicit Dumper(int indent) : indent_(indent) {}

  void append(const Json& value) {
    if (value.is_null()) out_ += "null";
    if (value.is_bool()) out_ += value.as_bool() ? "true" : "false";
    if (value.is_int()) out_ += std::to_string(value.as_int());
    if (value.is_double()) append_double(value.as_double(), out_);
    if (value.is_string()) append_string(value.as_string(), out_);
    if (value.is_array()) append_array(value.as_array());
    if (value.is_object()) append_object(value.as_object());
  }

  std::string take() { return std::move(out_); }

 private:
  void append_array(const Json::Array& items) {
    open('[');
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      append(items[i]);
    }
    close(']', items.empty());
  }

  void append_object(const Json::Object& members) {
    open('{');
    for (size_t i = 0; i < members.size(); ++i) {
      separate(i == 0);
      append_string(members[i].first, out_);
      out_ += ": ";
      append(members[i].second);
    }
    close('}', members.empty());
  }

  void open(char bracket) {
    out_ += bracket;
    ++depth_;
  }
  void separate(bool first) {
    if (!first) out_ += indent_ < 0 ? ", " : ",";
    break_line();
  }
  void close(char bracket, bool empty) {
    --depth_;
    if (!empty) break_line();
    out_ += bracket;
  }
  void break_line() {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(indent_) * static_cast<size_t>(depth_), ' ');
  }

  int indent_;
  int depth_ = 0;
  std::string out_;
};

}  // namespace

std::string Json::dump(int indent) const {
  Dumper dumper(indent);
  dumper.append(*this);
  return dumper.take();
}

}  // namespace colibri
