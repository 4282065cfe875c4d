// AddedTokenList: collects the added tokens of a tokenizer from its files, and gives them ids.
//
// tokenizer.json: the id of the vocabulary entry with that text, else the next free one, as `tokenizers` does; the ids
// that the files name are not looked at, as there. Vocabularies without added tokens of their own (tokenizer.model,
// tiktoken): the ids that tokenizer_config.json names. Used while a tokenizer is built, by one thread; refers to the
// vocabulary.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/added_tokens.h"
#include "text/vocabulary.h"

namespace colibri::text {

class AddedTokenList {
 public:
  enum class Ids { kOfVocabulary, kNamed };
  AddedTokenList(const Vocabulary& vocabulary, Ids ids) : vocabulary_(vocabulary), ids_(ids) {}

  /// An entry as tokenizer.json and tokenizer_config.json hold them; `id`: what the file names, -1 when it does not.
  Status add(const Json& entry, int64_t id);
  /// kNamed: the token's id counts. Content that is there already, or empty, is skipped.
  void add(AddedToken token);
  /// What transformers adds from tokenizer_config.json: added_tokens_decoder by id, then the tokens with a role.
  Status add_from_config(const Json& config);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// The contents of those that are special: what text alone may never become.
  std::vector<std::string> special() const;

 private:
  void add_role(const Json* json);

  const Vocabulary& vocabulary_;
  const Ids ids_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, TokenId> contents_;
  TokenId largest_ = -1;
};

}  // namespace colibri::text
