// TokenMask: one bit for each token of a vocabulary, set where the token may be sampled.
//
// Made by ConstraintState, read by the sampler. Ids outside the vocabulary are not in it and never set.
// Thread-safety: a plain value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token_ids.h"

namespace colibri::sampling {

class TokenMask {
 public:
  TokenMask() = default;
  explicit TokenMask(int32_t vocab_size) : size_(vocab_size), words_((static_cast<size_t>(vocab_size) + 63) / 64) {}

  int32_t size() const { return size_; }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  void set(TokenId id) { words_[static_cast<size_t>(id) / 64] |= bit(id); }  ///< REQUIRES: 0 <= id < size()
  bool test(TokenId id) const { return id >= 0 && id < size_ && (words_[static_cast<size_t>(id) / 64] & bit(id)) != 0; }
  /// Adds the tokens of a mask of the same size.
  void add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  int64_t count() const {
    int64_t n = 0;
    for (const uint64_t word : words_) n += std::popcount(word);
    return n;
  }
  /// Calls visit(id) for each token of the mask, in the order of the ids.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t i = 0; i < words_.size(); ++i)
      for (uint64_t word = words_[i]; word != 0; word &= word - 1)
        visit(static_cast<TokenId>(i * 64 + static_cast<size_t>(std::countr_zero(word))));
  }
  bool operator==(const TokenMask& other) const = default;

 private:
  static uint64_t bit(TokenId id) { return uint64_t{1} << (static_cast<uint32_t>(id) % 64); }

  int32_t size_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace colibri::sampling
