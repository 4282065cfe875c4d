#include "text/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

// Without single underscores between digits; nothing when an underscore stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  const auto is_alnum = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

// Takes 0x, 0o or 0b where the base allows it.
void take_prefix(std::string_view& text, int64_t& base) {
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t of_letter = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (of_letter != 0 && (base == 0 || base == of_letter)) {
      base = of_letter;
      text.remove_prefix(text.size() > 2 && text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
}

std::string lower_ascii(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

}  // namespace

std::optional<int64_t> parse_python_int(std::string_view text, int64_t base) {
  if (base < 0 || base == 1 || base > 36) return std::nullopt;
  text = strip(text, Side::kBoth);
  const bool negative = take_sign(text);
  take_prefix(text, base);
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  uint64_t magnitude = 0;
  const char* end = digits->data() + digits->size();
  const auto [stop, error] = std::from_chars(digits->data(), end, magnitude, static_cast<int>(base));
  const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (error != std::errc() || stop != end || magnitude > limit) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
}

std::optional<double> parse_python_float(std::string_view text) {
  text = strip(text, Side::kBoth);
  const bool negative = take_sign(text);
  const auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  const std::string digits = lower_ascii(*plain);
  const double sign = negative ? -1 : 1;
  if (digits == "inf" || digits == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (digits == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9')) return std::nullopt;
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    number = digits.find("e-") != std::string::npos ? 0 : std::numeric_limits<double>::infinity();
  }
  return sign * number;
}

double round_to_digits(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 320) return number;
  if (digits < -308) return std::copysign(0.0, number);
  if (digits < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / scale) * scale;
  }
  char buffer[700];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::fixed, static_cast<int>(digits)).ptr;
  double rounded = number;
  std::from_chars(buffer, end, rounded);
  return rounded;
}

std::optional<int64_t> round_to_digits(int64_t number, int64_t digits) {
  if (digits >= 0) return number;
  if (digits < -18) return 0;
  int64_t scale = 1;
  for (int64_t i = 0; i < -digits; ++i) scale *= 10;
  int64_t quotient = number / scale;
  const int64_t twice = std::abs(number % scale);  // compared with scale / 2 without overflow
  const bool up = twice > scale - twice || (twice == scale - twice && quotient % 2 != 0);
  if (up) quotient += number < 0 ? -1 : 1;
  int64_t rounded = 0;
  if (__builtin_mul_overflow(quotient, scale, &rounded)) return std::nullopt;
  return rounded;
}

}  // namespace colibri::text::jinja
