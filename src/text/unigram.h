// Unigram: the segmentation of a piece of text with the largest sum of scores (Viterbi), equal to SentencePiece and to
// the Unigram model of Hugging Face `tokenizers`.
//
// What no entry covers costs ten more than the worst entry and becomes bytes or the unknown token. Time is O(n m) for n
// bytes and entries of up to m bytes. No text gives a special token. Ownership: a value that owns the vocabulary.
// Thread-safety: encode() may run in several threads, each with its own scratch.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "text/string_set.h"
#include "text/vocabulary.h"

namespace colibri::text {

struct UnigramOptions {
  TokenId unknown = -1;           ///< -1: unknown text vanishes
  double unknown_score = 0;       ///< of one unknown character
  bool byte_fallback = false;     ///< unknown text becomes the tokens <0x00>..<0xFF>, provided that all are there
  bool single_precision = false;  ///< sums are rounded to float, as SentencePiece does; `tokenizers` keeps double
};

/// How much worse than the worst entry an unknown character is.
inline constexpr double kUnknownPenalty = 10;

/// Working memory of encode(), reused from piece to piece.
struct UnigramScratch {
  struct Node {
    double score;
    int32_t start;  // of the best last token that ends here; -1: nothing does
    TokenId id;
  };
  std::vector<Node> nodes;
  TokenIds ids;
};

class Unigram {
 public:
  /// `scores`: one for each id. `usable`: whether text may become this id. kInvalidModel when an entry is longer than
  /// 1024 bytes or a score is no number.
  static Result<Unigram> create(Vocabulary vocabulary, std::vector<double> scores, const std::vector<bool>& usable,
                                const UnigramOptions& options);

  /// Appends the tokens of `piece`. REQUIRES: valid UTF-8.
  void encode(std::string_view piece, UnigramScratch& scratch, TokenIds& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options);
  void search(std::string_view piece, UnigramScratch& scratch) const;
  void append_unknown(std::string_view text, TokenIds& out) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  UnigramOptions options_;
  StringSet entries_;
  std::array<TokenId, 256> byte_tokens_{};
};

}  // namespace colibri::text
