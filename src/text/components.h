// Components that files without a tokenizer.json stand for, written as a tokenizer.json would have them.
//
// Used by tokenizer_gguf.cc, tokenizer_sentencepiece.cc and tokenizer_tiktoken.cc. Thread-safety: free functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/decoder.h"

namespace colibri::text {

/// U+2581 becomes a blank, byte tokens become bytes, and up to `strip` blanks in front go: what encoding put there.
Decoder sentencepiece_decoder(size_t strip);
/// For models that trim blanks.
inline constexpr size_t kStripAll = 1 << 30;

/// Scores as ranks: the largest first, equal ones equal. Ids that are not `usable` are kUnranked.
/// kInvalidModel when a score is no number.
Result<std::vector<uint32_t>> ranks_of_scores(const std::vector<float>& scores, const std::vector<bool>& usable);

}  // namespace colibri::text
