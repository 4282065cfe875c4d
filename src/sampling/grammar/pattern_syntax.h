// The syntax tree of a pattern, and sets of characters.
//
// Made by parse_pattern, read by compile_pattern. Thread-safety: plain values.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace colibri::sampling::grammar {

inline constexpr char32_t kLastCharacter = 0x10FFFF;

/// Ranges, inclusive, in order and apart once normalise() has run.
struct CharacterSet {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  void add(char32_t low, char32_t high) { ranges.emplace_back(low, high); }
  void add(const CharacterSet& other) { ranges.insert(ranges.end(), other.ranges.begin(), other.ranges.end()); }
  void normalise();
  void invert();
};

struct PatternNode {
  enum Kind { kSet, kSequence, kChoice, kRepeat };
  Kind kind = kSequence;  ///< an empty sequence matches nothing at all
  CharacterSet set;
  std::vector<PatternNode> parts;  ///< kRepeat: one
  int min = 0, max = 0;            ///< kRepeat; max < 0: none
};

/// The pattern with what its anchors leave open: any text before "..." where "^" lacks.
Result<PatternNode> parse_pattern(std::string_view pattern);

}  // namespace colibri::sampling::grammar
