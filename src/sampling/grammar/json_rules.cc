#include "sampling/grammar/json_rules.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "text/utf8.h"

namespace colibri::sampling::grammar {

std::string_view escaped(char32_t character) {
  static const auto kControls = [] {
    std::array<std::string, 32> texts;
    for (unsigned i = 0; i < texts.size(); ++i) {
      char text[8];
      std::snprintf(text, sizeof text, "\\u%04x", i);
      texts[i] = text;
    }
    texts['\b'] = "\\b", texts['\f'] = "\\f", texts['\n'] = "\\n", texts['\r'] = "\\r", texts['\t'] = "\\t";
    return texts;
  }();
  if (character < kControls.size()) return kControls[character];
  return character == '"' ? "\\\"" : character == '\\' ? "\\\\" : "";
}

std::string escaped_string(std::string_view text) {
  std::string quoted = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const std::string_view escape = escaped(text::next_character(text, at));
    quoted += escape.empty() ? text.substr(begin, at - begin) : escape;
  }
  return quoted += '"';
}

Rule JsonRules::blank() {
  if (blank_ != kNone) return blank_;
  const State start = b_.state(), lines = b_.state(), space = b_.state(), end = b_.state();
  const int32_t bounds = b_.bounds(0, kMaxIndentation);
  b_.empty(start, end);
  b_.bytes(start, ' ', ' ', end);
  b_.bytes(start, '\n', '\n', lines);
  b_.count(lines, bounds, space);
  b_.bytes(space, ' ', ' ', lines);
  b_.leave(lines, bounds, end);
  b_.accept(end);
  return blank_ = b_.rule(start, false);
}

// ---- strings -------------------------------------------------------------------------------------------------------

State JsonRules::hex(State from, std::string_view digits) {
  const State to = b_.state();
  for (const char c : digits) {
    b_.bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
    if (c >= 'a') b_.bytes(from, static_cast<uint8_t>(c - 32), static_cast<uint8_t>(c - 32), to);
  }
  return to;
}

// Behind a backslash. The halves of a surrogate pair come one after the other.
void JsonRules::escape(State from, State to) {
  constexpr std::string_view kAny = "0123456789abcdef";
  for (const char c : std::string_view("\"\\/bfnrt"))
    b_.bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
  const State unicode = b_.text(from, "u");
  const State d = hex(unicode, "d"), other = hex(unicode, "0123456789abcef");
  const State low_half = b_.text(hex(hex(hex(d, "89ab"), kAny), kAny), "\\u");
  b_.empty(hex(hex(hex(other, kAny), kAny), kAny), to);
  b_.empty(hex(hex(hex(d, "01234567"), kAny), kAny), to);
  b_.empty(hex(hex(hex(hex(low_half, "d"), "cdef"), kAny), kAny), to);
}

void JsonRules::any_character(State from, State to) {
  add_code_points(b_, from, ' ', '!', to);
  add_code_points(b_, from, '#', '[', to);
  add_code_points(b_, from, ']', 0x10FFFF, to);
  escape(b_.text(from, "\\"), to);
}

Rule JsonRules::string() {
  if (string_ != kNone) return string_;
  const State start = b_.state(), body = b_.text(start, "\"");
  any_character(body, body);
  b_.mark_plain_loop(body);
  b_.accept(b_.text(body, "\""));
  return string_ = b_.rule(start, false);
}

State JsonRules::bounded_string(State from, int64_t min, int64_t max) {
  if (min <= 0 && max < 0) return b_.call(from, string());
  const int32_t bounds = b_.bounds(std::max<int64_t>(min, 0), max);
  const State start = b_.state(), body = b_.text(start, "\""), character = b_.state(), end = b_.state();
  b_.count(body, bounds, character);
  b_.leave(body, bounds, end);
  any_character(character, body);
  b_.mark_plain_loop(character, bounds);
  b_.accept(b_.text(end, "\""));
  return b_.call(from, b_.rule(start, false));
}

// ---- numbers -------------------------------------------------------------------------------------------------------

State JsonRules::digits(State from, int min, int max) {
  const State end = b_.state();
  for (int i = 0; i <= max; ++i) {
    if (i >= min) b_.empty(from, end);
    if (i == max) break;
    const State next = b_.state();
    b_.bytes(from, '0', '9', next);
    from = next;
  }
  return end;
}

// The texts from `low` to `high`, which have the same number of digits.
void JsonRules::range(State from, std::string_view low, std::string_view high, State to) {
  auto first = static_cast<uint8_t>(low[0]), last = static_cast<uint8_t>(high[0]);
  if (low.size() == 1) return b_.bytes(from, first, last, to);
  const std::string zeros(low.size() - 1, '0'), nines(low.size() - 1, '9');
  const auto branch = [&](uint8_t a, uint8_t b, std::string_view rest_low, std::string_view rest_high) {
    const State next = b_.state();
    b_.bytes(from, a, b, next);
    range(next, rest_low, rest_high, to);
  };
  if (first == last) return branch(first, last, low.substr(1), high.substr(1));
  if (low.substr(1) != zeros) {
    branch(first, first, low.substr(1), nines);
    ++first;
  }
  if (high.substr(1) != nines) {
    branch(last, last, zeros, high.substr(1));
    --last;
  }
  if (first <= last) branch(first, last, zeros, nines);
}

// Whole numbers without a sign. Numbers of each length are a range of their own.
void JsonRules::whole(State from, int64_t low, int64_t high, State to) {
  int64_t first = 0, last = 9;
  for (int n = 1;; ++n) {
    const int64_t a = std::max(low, first), b = std::min(high, last);
    if (a <= b) range(from, std::to_string(a), std::to_string(b), to);
    if (n == kMaxDigits) return;
    first = last + 1;
    last = last * 10 + 9;
  }
}

State JsonRules::integer(State from, const NumberRange& range) {
  const State to = b_.state();
  const int64_t low = range.low + (range.above_low ? 1 : 0), high = range.high - (range.below_high ? 1 : 0);
  whole(from, std::max<int64_t>(low, 0), high, to);
  if (low < 0) whole(b_.text(from, "-"), std::max<int64_t>(-high, 1), -low, to);
  return to;
}

// A point and digits; `positive`: at least one is not 0.
State JsonRules::fraction(State from, bool positive) {
  State at = b_.text(from, ".");
  if (!positive) return digits(at, 1, kMaxFraction);
  const State nonzero = b_.state();
  for (int i = 0; i < kMaxFraction / 2; ++i) {
    const State zero = b_.text(at, "0");
    b_.bytes(at, '1', '9', nonzero);
    at = zero;
  }
  b_.bytes(at, '1', '9', nonzero);
  return digits(nonzero, 0, kMaxFraction / 2 - 1);
}

// Decimals without a sign between two whole numbers.
void JsonRules::magnitude(State from, int64_t low, bool above, int64_t high, bool below, State to) {
  if (low > high || (low == high && (above || below))) return;
  if (!below) whole(from, high, high, to);
  if (low == high) return;
  if (above) {
    const State at = b_.state();
    whole(from, low, low, at);
    b_.empty(fraction(at, true), to);
  }
  const int64_t first = low + (above ? 1 : 0);
  if (first > high - 1) return;
  const State at = b_.state();
  whole(from, first, high - 1, at);
  b_.empty(at, to);
  b_.empty(fraction(at, false), to);
}

State JsonRules::number(State from, const NumberRange& range) {
  const State to = b_.state();
  if (range.bounded) {
    const bool from_zero = range.low < 0;
    magnitude(from, std::max<int64_t>(range.low, 0), !from_zero && range.above_low, range.high, range.below_high, to);
    if (!from_zero) return to;
    const bool to_zero = range.high >= 0;
    magnitude(b_.text(from, "-"), std::max<int64_t>(-range.high, 0), to_zero || range.below_high, -range.low,
              range.above_low, to);
    return to;
  }
  const State sign = b_.state(), integral = b_.state(), decimal = b_.state();
  b_.empty(from, sign);
  b_.bytes(from, '-', '-', sign);
  whole(sign, 0, kLargestInteger, integral);
  b_.empty(integral, decimal);
  b_.empty(fraction(integral, false), decimal);
  b_.empty(decimal, to);
  const State exponent = b_.state(), power = b_.state();
  b_.bytes(decimal, 'e', 'e', exponent);
  b_.bytes(decimal, 'E', 'E', exponent);
  b_.empty(exponent, power);
  b_.bytes(exponent, '+', '+', power);
  b_.bytes(exponent, '-', '-', power);
  b_.empty(digits(power, 1, 2), to);
  return to;
}

// ---- values --------------------------------------------------------------------------------------------------------

Rule JsonRules::value() {
  if (value_ != kNone) return value_;
  value_ = b_.declare(false);
  const State start = b_.state(), end = b_.state();
  b_.call(start, object(), end);
  b_.call(start, array(), end);
  b_.call(start, string(), end);
  b_.empty(number(start, {}), end);
  for (const std::string_view word : {"true", "false", "null"}) b_.empty(b_.text(start, word), end);
  b_.accept(end);
  b_.define(value_, start);
  return value_;
}

Rule JsonRules::object() {
  if (object_ != kNone) return object_;
  object_ = b_.declare(true);
  const State start = b_.state(), open = b_.text(start, "{"), key = b_.state(), end = b_.state();
  b_.call(open, blank(), key);
  const State colon = b_.text(b_.call(key, string()), ":");
  const State more = b_.call(blank(colon), value());
  b_.call(b_.text(more, ","), blank(), key);
  b_.bytes(blank(more), '}', '}', end);
  b_.bytes(open, '}', '}', end);
  b_.accept(end);
  b_.define(object_, start);
  return object_;
}

Rule JsonRules::array() {
  if (array_ != kNone) return array_;
  array_ = b_.declare(true);
  const State start = b_.state(), open = b_.text(start, "["), item = b_.state(), end = b_.state();
  b_.call(open, blank(), item);
  const State more = b_.call(item, value());
  b_.call(b_.text(more, ","), blank(), item);
  b_.bytes(blank(more), ']', ']', end);
  b_.bytes(open, ']', ']', end);
  b_.accept(end);
  b_.define(array_, start);
  return array_;
}

}  // namespace colibri::sampling::grammar
