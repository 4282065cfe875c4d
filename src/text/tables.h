// Tokenizer::Tables: everything a tokenizer consists of, constant once it is built.
//
// Built by tokenizer_json.cc and tokenizer_gguf.cc, used by tokenizer.cc and detokenizer.cc only.
// Thread-safety: constant after build(); encode and decode bring their own scratch.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace colibri::text {

struct Tokenizer::Tables {
  Tables(Bpe model) : bpe(std::move(model)) {}  // NOLINT(google-explicit-constructor)

  Bpe bpe;
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  TokenIds prefix, suffix;  ///< what the post-processor puts around a text
  TokenId bos = -1, eos = -1;
  int32_t vocab_size = 0;
  size_t longest_spelling = 0;  ///< bytes

  /// Prepares the search for added tokens and counts the ids and measures spellings. The last step of building.
  void finish();
};

}  // namespace colibri::text
