// The mini-language of format specifications, shared by str.format() and % formatting.
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

constexpr int64_t kMaxPrecision = 400;

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// Takes digits; -1 when there are none.
Result<int64_t> take_number(Runtime& rt, std::string_view& text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range || number > UINT32_MAX) return rt.fail("a format's width is too large");
  if (error != std::errc() || text[0] == '-') return -1;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

std::string sign_of(bool negative, const FormatSpec& spec) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// Thousands separators into the digits before a point or an exponent.
std::string grouped(const std::string& digits, char separator, size_t every) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

std::string upper_ascii(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
}

// printf's %e writes at least two digits of exponent, as does to_chars.
std::string float_digits(double value, char type, int precision, bool alternate) {
  char buffer[800];
  const auto format = type == 'e'   ? std::chars_format::scientific
                      : type == 'f' ? std::chars_format::fixed
                                    : std::chars_format::general;
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format, precision).ptr;
  std::string text(buffer, end);
  if (alternate && text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), 1, '.');
  return text;
}

std::string float_body(double magnitude, const FormatSpec& spec) {
  const char type = static_cast<char>(spec.type | 0x20);
  std::string text;
  if (std::isnan(magnitude) || std::isinf(magnitude)) {
    text = std::isnan(magnitude) ? "nan" : "inf";
    if (spec.type == '%') text += "%";
  } else if (spec.type == '%') {
    text = float_digits(magnitude * 100, 'f', spec.precision < 0 ? 6 : static_cast<int>(spec.precision), false) + "%";
  } else if (spec.type == 0 && spec.precision < 0) {
    text = float_repr(magnitude);
  } else {
    const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    text = float_digits(magnitude, spec.type == 0 ? 'g' : type, precision, spec.alternate);
    const bool is_whole = text.find_first_of(".e") == std::string::npos;
    if (spec.type == 0 && is_whole) text += ".0";
  }
  return spec.type >= 'A' && spec.type <= 'Z' ? upper_ascii(text) : text;
}

std::string integer_body(uint64_t magnitude, const FormatSpec& spec, std::string& prefix) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr;
  if (spec.alternate && base != 10) prefix = {'0', spec.type};
  const std::string text(buffer, end);
  return spec.type == 'X' ? upper_ascii(text) : text;
}

// Fills up to the width; `prefix` (sign and 0x) stays in front of the filling when the alignment is '='.
std::string_view padded(Runtime& rt, std::string_view prefix, std::string_view body, const FormatSpec& spec,
                        char align) {
  const auto size = static_cast<int64_t>(count_code_points(prefix) + count_code_points(body));
  const auto missing = static_cast<uint64_t>(std::max<int64_t>(spec.width - size, 0));
  const uint64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  TextBuilder out(rt.heap);
  if (align == '=') out.append(prefix);
  if (left > 0) out.append(left, spec.fill);
  if (align != '=') out.append(prefix);
  out.append(body);
  if (missing > left) out.append(missing - left, spec.fill);
  return out.finish();
}

Result<std::string_view> format_number(Runtime& rt, const Value& value, const FormatSpec& spec) {
  constexpr std::string_view kFloatTypes = "eEfFgG%";
  const bool as_float = value.is(Kind::kFloat) || (spec.type != 0 && kFloatTypes.find(spec.type) != std::string::npos);
  std::string prefix, body;
  if (as_float) {
    if (spec.type != 0 && spec.type != 'n' && kFloatTypes.find(spec.type) == std::string::npos) {
      return rt.fail({"format code '", {&spec.type, 1}, "' does not fit a float"});
    }
    const double number = value.as_double();
    prefix = sign_of(std::signbit(number), spec);
    body = float_body(std::abs(number), spec);
  } else {
    constexpr std::string_view kIntegerTypes = "dnxXob";
    if (spec.type != 0 && kIntegerTypes.find(spec.type) == std::string::npos) {
      return rt.fail({"format code '", {&spec.type, 1}, "' does not fit an integer"});
    }
    const int64_t number = value.as_int();
    const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    body = integer_body(magnitude, spec, prefix);
    prefix.insert(0, sign_of(number < 0, spec));
  }
  if (spec.group != 0) body = grouped(body, spec.group, spec.type == 'x' || spec.type == 'X' ? 4 : 3);
  return padded(rt, prefix, body, spec, spec.align != 0 ? spec.align : '>');
}

}  // namespace

Result<FormatSpec> parse_format_spec(Runtime& rt, std::string_view text) {
  FormatSpec spec;
  const size_t first = text.empty() ? 0 : code_point_bytes(text[0]);
  if (first > 0 && first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) {
    spec.sign = text[0];
    text.remove_prefix(1);
  }
  spec.alternate = take(text, '#');
  if (take(text, '0') && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  COLIBRI_ASSIGN(const int64_t width, take_number(rt, text));
  spec.width = std::max<int64_t>(width, 0);
  if (take(text, ',')) spec.group = ',';
  if (take(text, '_')) spec.group = '_';
  if (take(text, '.')) {
    COLIBRI_ASSIGN(spec.precision, take_number(rt, text));
    if (spec.precision < 0) return rt.fail("a format specification without digits behind the point");
  }
  if (text.size() > 1) return rt.fail("invalid format specification");
  if (text.size() == 1) spec.type = text[0];
  return spec;
}

Result<std::string_view> apply_format_spec(Runtime& rt, const Value& value, const FormatSpec& spec) {
  if (value.is_number() && !(value.is(Kind::kBool) && spec.type == 0 && spec.width == 0)) {
    if (spec.precision > kMaxPrecision)
      return rt.fail({"a format's precision is beyond ", std::to_string(kMaxPrecision)});
    return format_number(rt, value, spec);
  }
  COLIBRI_ASSIGN(std::string_view text, to_str(rt, value));
  if (spec.type != 0 && spec.type != 's') {
    return rt.fail({"format code '", {&spec.type, 1}, "' does not fit a ", type_name(value)});
  }
  if (spec.align == '=') return rt.fail("'=' alignment does not fit a string");
  if (spec.precision >= 0) text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  return padded(rt, "", text, spec, spec.align != 0 ? spec.align : '<');
}

}  // namespace colibri::text::jinja
