#include "text/answers/call_id.h"

#include <algorithm>

#include "base/hash.h"

namespace colibri::text {
namespace {

// SplitMix64's finaliser: spreads a hash over all its bits.
uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

std::string digits(uint64_t value, size_t count, std::string_view alphabet) {
  std::string out;
  for (size_t i = 0; i < count; ++i, value /= alphabet.size()) out += alphabet[value % alphabet.size()];
  return out;
}

}  // namespace

std::string made_call_id(std::string_view seed, int index, IdStyle style) {
  Fnv1a hash;
  hash.add(seed);
  hash.add(static_cast<uint64_t>(index));
  const uint64_t first = mixed(hash.value()), second = mixed(first + 0x9e3779b97f4a7c15);
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view kHex = "0123456789abcdef";
  if (style == IdStyle::kNine) return digits(first, 9, kLetters);
  return "call_" + digits(first, 12, kHex) + digits(second, 12, kHex);
}

bool is_call_id(std::string_view id, IdStyle style) {
  const auto is_alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (style == IdStyle::kNine) return id.size() == 9 && std::all_of(id.begin(), id.end(), is_alphanumeric);
  return !id.empty();
}

}  // namespace colibri::text
