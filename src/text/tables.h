// Tokenizer::Tables: everything a tokenizer consists of, constant once it is built.
//
// Built by the tokenizer_*.cc, used by tokenizer.cc and detokenizer.cc only.
// Thread-safety: constant after build(); encode and decode bring their own scratch.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/tokenizer.h"

namespace colibri::text {

struct Tokenizer::Tables {
  explicit Tables(TokenModel token_model) : model(std::move(token_model)) {}
  static Result<std::unique_ptr<Tables>> create(TokenModel model, const std::vector<AddedToken>& added);

  TokenModel model;
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  TokenIds prefix, suffix;  ///< what the post-processor puts around a text
  TokenId bos = -1, eos = -1;
  std::string note;  ///< what a user should know about how it was read; empty: nothing
  int32_t vocab_size = 0;
  size_t longest_spelling = 0;  ///< bytes

  /// The id of a token that a configuration gives a role, {"content": "..."} or "..."; -1 when there is none.
  TokenId role_id(const Json* json) const;
  /// Prepares the search for added tokens and counts the ids and measures spellings. The last step of building.
  void finish();
};

}  // namespace colibri::text
