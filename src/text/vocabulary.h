// Vocabulary: the spelling of each id, and the id of each spelling.
//
// Built once while a tokenizer is loaded, constant afterwards. Ids may have holes. A spelling that occurs twice is
// found under its first id. Ownership: all text lives in one block. Thread-safety: const functions may run in several
// threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_ids.h"

namespace colibri::text {

class Vocabulary {
 public:
  /// Room for ids below `n_ids`, of which `n_entries` have spellings of `n_bytes` in all.
  Vocabulary(size_t n_ids, size_t n_entries, size_t n_bytes);

  /// False, and nothing happens, when the id has a spelling already. REQUIRES: 0 <= id < n_ids().
  bool insert(TokenId id, std::string_view spelling);

  TokenId find(std::string_view spelling) const;    ///< -1 when absent
  std::string_view spelling(TokenId id) const;      ///< empty when absent
  size_t n_ids() const { return entries_.size(); }  ///< largest possible id + 1
  size_t n_entries() const { return n_entries_; }
  size_t longest() const { return longest_; }  ///< bytes of the longest spelling

 private:
  struct Entry {
    uint64_t offset = 0;
    uint32_t size = 0;
    bool present = false;
  };
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;
  };
  size_t slot_of(std::string_view spelling, uint32_t hash) const;

  std::string text_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // open addressing, a power of two, at most half full
  size_t n_entries_ = 0;
  size_t longest_ = 0;
};

}  // namespace colibri::text
