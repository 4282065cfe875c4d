// Tokenizer::from_gguf: a tokenizer from the vocabulary keys of a GGUF file.
#include <limits>

#include "text/gguf_pre_tokenizers.h"
#include "text/tables.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

enum TokenType { kUnknown = 2, kControl = 3, kUserDefined = 4 };

Status check(const GgufVocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") {
    return Error{ErrorCode::kUnsupported,
                 "tokenizer.ggml.model \"" + vocabulary.model +
                     "\" is not supported; byte-level BPE (\"gpt2\") is. Use the tokenizer.json of "
                     "the original model instead"};
  }
  if (!find_gguf_pre_tokenizer(vocabulary.pre)) {
    return Error{ErrorCode::kUnsupported,
                 "tokenizer.ggml.pre \"" + vocabulary.pre + "\" is unknown; known are " + known_gguf_pre_tokenizers()};
  }
  const size_t n = vocabulary.tokens.size(), n_types = vocabulary.token_types.size();
  if (n == 0 || n > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Error{ErrorCode::kInvalidModel, "tokenizer.ggml.tokens has " + std::to_string(n) + " entries"};
  }
  if (n_types != 0 && n_types != n) {
    return Error{ErrorCode::kInvalidModel, "tokenizer.ggml.token_type has " + std::to_string(n_types) +
                                               " entries for " + std::to_string(n) + " tokens"};
  }
  return {};
}

Result<Vocabulary> read_tokens(const std::vector<std::string>& tokens) {
  size_t n_bytes = 0;
  for (const std::string& token : tokens) n_bytes += token.size();
  Vocabulary vocabulary(tokens.size(), tokens.size(), n_bytes);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_valid_utf8(tokens[id])) {
      return Error{ErrorCode::kInvalidModel, "tokenizer.ggml.tokens: token " + std::to_string(id) + " is no UTF-8"};
    }
    vocabulary.insert(static_cast<TokenId>(id), tokens[id]);
  }
  return vocabulary;
}

/// "left right"; a left part may be a blank itself.
Result<std::vector<MergeRule>> read_merges(const std::vector<std::string>& merges) {
  std::vector<MergeRule> rules;
  rules.reserve(merges.size());
  for (const std::string& merge : merges) {
    const size_t blank = merge.find(' ', 1);
    if (blank == std::string::npos || !is_valid_utf8(merge)) {
      return Error{ErrorCode::kInvalidModel, "tokenizer.ggml.merges: entry " + std::to_string(rules.size()) +
                                                 " is not two parts with a blank between"};
    }
    const std::string_view text = merge;
    rules.push_back({text.substr(0, blank), text.substr(blank + 1)});
  }
  return rules;
}

/// As llama.cpp reads them, and unlike those of a tokenizer.json, the merges may speak of text that is not in the
/// vocabulary, for instance when somebody cut it down. No token can come of them.
void drop_foreign_merges(const Vocabulary& tokens, std::vector<MergeRule>& rules) {
  std::string both;
  std::erase_if(rules, [&](const MergeRule& rule) {
    both.assign(rule.left).append(rule.right);
    return tokens.find(rule.left) < 0 || tokens.find(rule.right) < 0 || tokens.find(both) < 0;
  });
}

/// Control and unknown tokens are special, user-defined ones are found in text but print.
std::vector<AddedToken> added_tokens(const GgufVocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.token_types.size(); ++id) {
    const int32_t type = vocabulary.token_types[id];
    if (type != kUnknown && type != kControl && type != kUserDefined) continue;
    AddedToken& token = added.emplace_back();
    token.content = vocabulary.tokens[id];
    token.id = static_cast<TokenId>(id);
    token.special = type != kUserDefined;
  }
  return added;
}

Status set_ends(const GgufVocabulary& vocabulary, int64_t id, bool add, const char* key, TokenId& token,
                TokenIds& around) {
  if (id < 0) return {};
  if (id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    return Error{ErrorCode::kInvalidModel, std::string(key) + " is " + std::to_string(id) + ", but there are " +
                                               std::to_string(vocabulary.tokens.size()) + " tokens"};
  }
  token = static_cast<TokenId>(id);
  if (add) around.push_back(token);
  return {};
}

Result<Bpe> build_model(const GgufVocabulary& vocabulary, const std::vector<AddedToken>& added, bool ignore_merges) {
  COLIBRI_ASSIGN(auto tokens, read_tokens(vocabulary.tokens));
  COLIBRI_ASSIGN(auto rules, read_merges(vocabulary.merges));
  drop_foreign_merges(tokens, rules);
  std::vector<std::string> special;
  for (const AddedToken& token : added) {
    if (token.special) special.push_back(token.content);
  }
  BpeOptions options;
  options.byte_level = true;
  options.ignore_merges = ignore_merges;
  return Bpe::create(std::move(tokens), rules, options, special);
}

Result<std::unique_ptr<Tokenizer::Tables>> build(const GgufVocabulary& vocabulary) {
  COLIBRI_TRY(check(vocabulary));
  const GgufPreTokenizer& pre = *find_gguf_pre_tokenizer(vocabulary.pre);
  const std::vector<AddedToken> added = added_tokens(vocabulary);
  COLIBRI_ASSIGN(auto model, build_model(vocabulary, added, pre.ignore_merges));
  auto tables = std::make_unique<Tokenizer::Tables>(std::move(model));
  for (const AddedToken& token : added) COLIBRI_TRY(tables->added.add(token));
  if (pre.nfc) tables->normalizer = Normalizer::normal_form(NormalForm::kNfc);
  COLIBRI_ASSIGN(tables->pre_tokenizer, PreTokenizer::byte_level(pre.patterns));
  tables->decoder = Decoder::byte_level();
  COLIBRI_TRY(set_ends(vocabulary, vocabulary.bos_id, vocabulary.add_bos, "tokenizer.ggml.bos_token_id", tables->bos,
                       tables->prefix));
  COLIBRI_TRY(set_ends(vocabulary, vocabulary.eos_id, vocabulary.add_eos, "tokenizer.ggml.eos_token_id", tables->eos,
                       tables->suffix));
  tables->finish();
  return tables;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary, const std::string& source) {
  auto tables = build(vocabulary);
  if (!tables.ok()) return std::move(tables).with_context(source).error();
  return Tokenizer(std::move(tables).value());
}

}  // namespace colibri::text
