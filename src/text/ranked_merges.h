// The merges of a vocabulary that ranks its entries: tiktoken and tekken files by rank, SentencePiece by score.
//
// Such a file lists no pairs: two neighbours may merge when their joint text is an entry, the best rank first. But the
// process inside the text of one entry does not depend on what stands around it as long as nothing crosses its borders,
// so an entry is only ever made from one pair: the last two symbols of its own text. That gives one rule per entry,
// with the results of looking up every joint text. Called by Bpe only. Thread-safety: a free function.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "text/vocabulary.h"

namespace colibri::text {

/// Not an entry that text can become: control tokens, byte tokens.
inline constexpr uint32_t kUnranked = std::numeric_limits<uint32_t>::max();

struct RankedMerge {
  TokenId left, right, result;
  uint32_t rank;
};

/// `ranks`: one for each id, smaller ones merge first, equal ones from left to right. Symbols are the characters of the
/// spellings. kInvalidModel when an entry is longer than 1024 bytes.
Result<std::vector<RankedMerge>> ranked_merges(const Vocabulary& vocabulary, const std::vector<uint32_t>& ranks);

}  // namespace colibri::text
