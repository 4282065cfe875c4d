// Bpe: byte pair encoding of one piece of text, equal to the BPE model of Hugging Face `tokenizers`.
//
// Two alphabets: bytes, spelled with the byte-level letters, or characters with fallback to the tokens <0x00>..<0xFF>.
// Merging takes O(n log n) time for n symbols. A piece that is one token is found by a look-up: per vocabulary entry it
// is remembered whether merging its text gives just that entry, so the vocabulary itself is the cache of frequent
// words. No merge gives a special token: text alone can never become one. Ownership: a value that owns the vocabulary.
// Thread-safety: encode() may run in several threads, each with its own scratch.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "text/string_set.h"
#include "text/vocabulary.h"

namespace colibri::text {

struct BpeOptions {
  bool byte_level = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;   ///< neighbouring unknown characters become one unknown token
  bool ignore_merges = false;  ///< a piece that is in the vocabulary is that token
  TokenId unknown = -1;        ///< -1: unknown characters vanish
  /// SentencePiece: these are taken out of the text first, the longest at each place, and never merged with anything.
  TokenIds user_defined;
};

struct MergeRule {
  std::string_view left, right;
};

/// Working memory of encode(), reused from piece to piece.
struct BpeScratch {
  struct Symbol {
    TokenId id;
    int32_t previous, next;  // -1: none; next == kGone: merged away
  };
  struct Candidate {
    uint32_t rank;
    int32_t position;
    TokenId id;  // of the two symbols merged
  };
  std::string spelling;
  TokenIds ids;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

class Bpe {
 public:
  /// `rules` in order of rank. Rules that give one of the `special` spellings are left out.
  /// kInvalidModel when a rule speaks of text that is not in the vocabulary.
  static Result<Bpe> create(Vocabulary vocabulary, const std::vector<MergeRule>& rules, const BpeOptions& options,
                            const std::vector<std::string>& special);

  /// From a vocabulary that ranks its entries instead of listing merges (ranked_merges.h). `ranks`: one for each id.
  static Result<Bpe> create_ranked(Vocabulary vocabulary, const std::vector<uint32_t>& ranks, const BpeOptions& options,
                                   const std::vector<std::string>& special);

  /// Appends the tokens of `piece`. REQUIRES: valid UTF-8 unless byte-level.
  void encode(std::string_view piece, BpeScratch& scratch, TokenIds& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  enum Whole : uint8_t { kUntried, kYes, kNo, kForbidden };
  struct Merge {
    uint64_t pair = kNoPair;
    uint32_t rank = 0;
    TokenId id = -1;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  Bpe(Vocabulary vocabulary, const BpeOptions& options);
  Status add_rules(const std::vector<MergeRule>& rules);
  void insert(const Merge& merge);
  const Merge* find_merge(TokenId left, TokenId right) const;

  Status add_ranked(const std::vector<uint32_t>& ranks);
  void forbid(const std::vector<std::string>& special);
  void learn_cuts();
  bool learn_glue(std::string_view spelling);
  TokenId character_token(std::string_view piece, size_t start, size_t& end) const;
  void encode_uncut(std::string_view piece, BpeScratch& scratch, TokenIds& out) const;
  TokenId whole_token(std::string_view piece, BpeScratch& scratch) const;
  void spell_bytes(std::string_view piece, TokenIds& ids) const;
  void spell_characters(std::string_view piece, TokenIds& ids) const;
  bool append_fallback(std::string_view character, TokenIds& ids) const;
  void merge_short(TokenIds& ids) const;
  void merge_long(BpeScratch& scratch) const;
  void offer(BpeScratch& scratch, int32_t position) const;

  Vocabulary vocabulary_;
  BpeOptions options_;
  std::vector<Merge> merges_;  // open addressing, a power of two, at most half full
  std::array<TokenId, 256> byte_tokens_{};
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;  // Whole, by id
  StringSet user_defined_;
  bool cuts_ = false;               // pieces may be cut in front of a blank mark that follows something else
  std::vector<std::string> glued_;  // characters that a token holds in front of a blank mark: no cut behind them
};

}  // namespace colibri::text
