#include "formats/shard_name.h"

#include <algorithm>

namespace colibri::formats {
namespace {

// Takes `suffix` off the end of `text`.
bool drop_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Takes five digits off the end of `text`.
std::optional<int> drop_number(std::string_view& text) {
  constexpr size_t kDigits = 5;
  if (text.size() < kDigits) return std::nullopt;
  int value = 0;
  for (const char c : text.substr(text.size() - kDigits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  text.remove_suffix(kDigits);
  return value;
}

std::string five_digits(int value) {
  std::string digits = std::to_string(value);
  return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
}

}  // namespace

std::string ShardName::sibling(int other, std::string_view extension) const {
  return prefix + "-" + five_digits(other) + "-of-" + five_digits(count) + std::string(extension);
}

std::optional<ShardName> parse_shard_name(std::string_view name, std::string_view extension) {
  if (!drop_suffix(name, extension)) return std::nullopt;
  const auto count = drop_number(name);
  if (!count || !drop_suffix(name, "-of-")) return std::nullopt;
  const auto number = drop_number(name);
  if (!number || !drop_suffix(name, "-")) return std::nullopt;
  return ShardName{std::string(name), *number, *count};
}

}  // namespace colibri::formats
