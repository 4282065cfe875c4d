#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace colibri::text {
namespace {

uint32_t hash_of(std::string_view text) {
  const uint64_t hash = std::hash<std::string_view>()(text);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

Vocabulary::Vocabulary(size_t n_ids, size_t n_entries, size_t n_bytes)
    : entries_(n_ids), slots_(std::bit_ceil(2 * n_entries + 2)) {
  text_.reserve(n_bytes);
}

bool Vocabulary::insert(TokenId id, std::string_view spelling) {
  Entry& entry = entries_.at(static_cast<size_t>(id));
  if (entry.present) return false;
  COLIBRI_CHECK(2 * (n_entries_ + 1) <= slots_.size());
  entry = {text_.size(), static_cast<uint32_t>(spelling.size()), true};
  text_.append(spelling);
  ++n_entries_;
  longest_ = std::max(longest_, spelling.size());
  const uint32_t hash = hash_of(spelling);
  Slot& slot = slots_[slot_of(spelling, hash)];
  if (slot.id < 0) slot = {hash, id};
  return true;
}

size_t Vocabulary::slot_of(std::string_view spelling_wanted, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    if (slots_[i].id < 0 || (slots_[i].hash == hash && spelling(slots_[i].id) == spelling_wanted)) return i;
  }
}

TokenId Vocabulary::find(std::string_view spelling) const {
  if (spelling.size() > longest_) return -1;
  return slots_[slot_of(spelling, hash_of(spelling))].id;
}

std::string_view Vocabulary::spelling(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= entries_.size()) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(text_).substr(entry.offset, entry.size);
}

}  // namespace colibri::text
