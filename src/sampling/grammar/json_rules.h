// JsonRules: the rules of JSON itself, which schemas are made of: blank space, strings, numbers, any value.
//
// Each rule is added to the automaton when it is first asked for, and shared by all who call it. What is generated is
// narrower than what JSON allows, so that no answer goes on for ever: blank space is one space, or a line feed and at
// most kMaxIndentation spaces; numbers have at most kMaxDigits digits before the point, kMaxFraction behind it and an
// exponent of two. Strings have no lone surrogates. Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sampling/grammar/automaton.h"

namespace colibri::sampling::grammar {

inline constexpr int kMaxIndentation = 2 * kMaxNesting;
inline constexpr int kMaxDigits = 18;
inline constexpr int kMaxFraction = 18;
inline constexpr int64_t kLargestInteger = 999'999'999'999'999'999;  // kMaxDigits nines

/// A range of numbers; an end that is not given is where numbers of kMaxDigits digits end.
struct NumberRange {
  int64_t low = -kLargestInteger, high = kLargestInteger;
  bool above_low = false, below_high = false;  ///< the end itself is no part of it
  bool bounded = false;                        ///< either end was given
};

/// The bytes of a character inside a JSON string where it has to be escaped, else empty.
std::string_view escaped(char32_t character);
/// A string as JSON, with its quotes.
std::string escaped_string(std::string_view text);

class JsonRules {
 public:
  explicit JsonRules(AutomatonBuilder& builder) : b_(builder) {}

  Rule blank();   ///< where blank space may stand, none too
  Rule string();  ///< with its quotes
  Rule value();
  Rule object();
  Rule array();

  /// Any of these adds to the automaton from `from` on and returns the state behind.
  State bounded_string(State from, int64_t min, int64_t max);  ///< max < 0: none; in characters
  State integer(State from, const NumberRange& range);         ///< an empty range leads nowhere
  State number(State from, const NumberRange& range);
  State literal_string(State from, std::string_view text) { return b_.text(from, escaped_string(text)); }
  State blank(State from) { return b_.call(from, blank()); }

 private:
  void any_character(State from, State to);
  void escape(State from, State to);
  State hex(State from, std::string_view digits);
  State digits(State from, int min, int max);
  void range(State from, std::string_view low, std::string_view high, State to);
  void whole(State from, int64_t low, int64_t high, State to);
  State fraction(State from, bool positive);
  void magnitude(State from, int64_t low, bool above, int64_t high, bool below, State to);

  static constexpr Rule kNone = 0xFFFFFFFF;
  AutomatonBuilder& b_;
  Rule blank_ = kNone, string_ = kNone, value_ = kNone, object_ = kNone, array_ = kNone;
};

}  // namespace colibri::sampling::grammar
