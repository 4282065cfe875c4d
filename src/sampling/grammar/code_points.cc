#include <algorithm>

#include "sampling/grammar/automaton.h"
#include "text/utf8.h"

namespace colibri::sampling::grammar {
namespace {

std::string utf8(char32_t character) {
  std::string out;
  text::append_utf8(character, out);
  return out;
}

// The bytes from `low` to `high`, which have the same length, as a tree: the lowest and the highest first byte need
// their own branch unless everything below them is wanted.
void add_range(AutomatonBuilder& builder, State from, std::string_view low, std::string_view high, State to) {
  if (builder.full()) return;
  auto first = static_cast<uint8_t>(low[0]), last = static_cast<uint8_t>(high[0]);
  if (low.size() == 1) return builder.bytes(from, first, last, to);
  const std::string lowest(low.size() - 1, '\x80'), highest(low.size() - 1, '\xBF');
  const auto branch = [&](unsigned a, unsigned b, std::string_view rest_low, std::string_view rest_high) {
    const State next = builder.state();
    builder.bytes(from, a, b, next);
    add_range(builder, next, rest_low, rest_high, to);
  };
  if (first == last) return branch(first, last, low.substr(1), high.substr(1));
  if (low.substr(1) != lowest) {
    branch(first, first, low.substr(1), highest);
    ++first;
  }
  const bool own_end = high.substr(1) != highest;
  if (own_end) {
    branch(last, last, lowest, high.substr(1));
    --last;
  }
  if (first <= last) branch(first, last, lowest, highest);
}

}  // namespace

void add_code_points(AutomatonBuilder& builder, State from, char32_t low, char32_t high, State to) {
  // The borders of lengths, and the surrogates between them.
  constexpr std::pair<char32_t, char32_t> kParts[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  for (const auto& [first, last] : kParts) {
    const char32_t a = std::max(low, first), b = std::min(high, last);
    if (a <= b) add_range(builder, from, utf8(a), utf8(b), to);
  }
}

}  // namespace colibri::sampling::grammar
