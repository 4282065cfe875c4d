#include "text/charsmap.h"

#include <algorithm>

#include "text/utf8.h"

namespace colibri::text {
namespace {

// One unit of the double array: bits 0-7 label, 8 has a leaf, 9 wide offset, 10-30 offset, 31 is a leaf's value.
constexpr uint32_t kLeaf = 1U << 31;

bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & ~kLeaf; }
uint32_t label_of(uint32_t unit) { return unit & (kLeaf | 0xFF); }
size_t offset_of(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 1U << 9) >> 6); }

bool is_border(std::string_view text, size_t pos) { return pos == text.size() || (text[pos] & 0xC0) != 0x80; }

uint32_t read_u32(std::string_view bytes, size_t pos) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[pos + i]);
  return value;
}

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  Charsmap map;
  if (blob.empty()) return map;
  const size_t size = blob.size() < 4 ? 0 : read_u32(blob, 0);
  if (size == 0 || size % 4 != 0 || size > blob.size() - 4) {
    return Error{ErrorCode::kInvalidModel, "precompiled_charsmap: a trie of " + std::to_string(size) + " bytes in " +
                                               std::to_string(blob.size()) + " bytes"};
  }
  map.units_.reserve(size / 4);
  for (size_t pos = 4; pos < 4 + size; pos += 4) map.units_.push_back(read_u32(blob, pos));
  map.texts_ = blob.substr(4 + size);
  return map;
}

Charsmap::Hit Charsmap::find(std::string_view text, bool longest) const {
  Hit hit;
  if (units_.empty()) return hit;
  size_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    node ^= static_cast<uint8_t>(text[i]);
    if (node >= units_.size() || label_of(units_[node]) != static_cast<uint8_t>(text[i])) break;
    const bool leaf = has_leaf(units_[node]);
    node ^= offset_of(units_[node]);
    if (node >= units_.size()) break;
    if (!leaf || !is_border(text, i + 1)) continue;
    hit = {i + 1, text_at(value_of(units_[node]))};
    if (!longest) break;
  }
  return hit;
}

std::string_view Charsmap::text_at(size_t offset) const {
  if (offset >= texts_.size()) return {};
  const std::string_view rest = std::string_view(texts_).substr(offset);
  const std::string_view text = rest.substr(0, std::min(rest.find('\0'), rest.size()));
  return is_valid_utf8(text) ? text : kReplacementCharacter;
}

}  // namespace colibri::text
