// Tokenizer::from_gguf: a tokenizer from the vocabulary keys of a GGUF file.
#include <algorithm>
#include <array>
#include <limits>

#include "text/byte_fallback.h"
#include "text/components.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/ranked_merges.h"
#include "text/tables.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// Texts that end a turn or the output. Many files give them the type of ordinary tokens; text must not become them.
constexpr std::array<std::string_view, 20> kEnds = {"<|im_end|>",
                                                    "<|eot_id|>",
                                                    "<|eom_id|>",
                                                    "<|end|>",
                                                    "<|return|>",
                                                    "<|call|>",
                                                    "<|flush|>",
                                                    "<|calls|>",
                                                    "<EOT>",
                                                    "_<EOT>",
                                                    "[EOT]",
                                                    "[EOS]",
                                                    "<end_of_turn>",
                                                    "<turn|>",
                                                    "<|endoftext|>",
                                                    "<|im_start|>",
                                                    "<|end_of_text|>",
                                                    "<end_of_utterance>",
                                                    "[e~[",
                                                    "<\xEF\xBD\x9C"
                                                    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

Error invalid(const std::string& what) { return {ErrorCode::kInvalidModel, what}; }

Status check(const GgufVocabulary& vocabulary) {
  const size_t n = vocabulary.tokens.size(), n_types = vocabulary.token_types.size();
  if (n == 0 || n > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return invalid("tokenizer.ggml.tokens has " + std::to_string(n) + " entries");
  }
  if (n_types != 0 && n_types != n) {
    return invalid("tokenizer.ggml.token_type has " + std::to_string(n_types) + " entries for " + std::to_string(n) +
                   " tokens");
  }
  return {};
}

Status check_scores(const GgufVocabulary& vocabulary) {
  if (vocabulary.scores.size() == vocabulary.tokens.size()) return {};
  return invalid("tokenizer.ggml.scores has " + std::to_string(vocabulary.scores.size()) + " entries for " +
                 std::to_string(vocabulary.tokens.size()) + " tokens");
}

Result<Vocabulary> read_tokens(const std::vector<std::string>& tokens) {
  size_t n_bytes = 0;
  for (const std::string& token : tokens) n_bytes += token.size();
  Vocabulary vocabulary(tokens.size(), tokens.size(), n_bytes);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!is_valid_utf8(tokens[id])) {
      return invalid("tokenizer.ggml.tokens: token " + std::to_string(id) + " is no UTF-8");
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
      return invalid("tokenizer.ggml.merges: entry " + std::to_string(rules.size()) +
                     " is not two parts with a blank between");
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

int32_t type_of(const GgufVocabulary& vocabulary, size_t id) {
  const int32_t type = vocabulary.token_types.empty() ? kNormal : vocabulary.token_types[id];
  const bool plain = type == kNormal || type == kUserDefined;
  const bool is_end = plain && std::find(kEnds.begin(), kEnds.end(), vocabulary.tokens[id]) != kEnds.end();
  return is_end ? kControl : type;
}

/// Without merges text would come out as single characters, which no model with longer tokens was trained on. Merges
/// that make no token have the same effect, but files made to measure with hold some: see note_about_merges().
Status check_merges(const GgufVocabulary& vocabulary) {
  if (!vocabulary.merges.empty()) return {};
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    const auto n_characters = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
    if (type_of(vocabulary, id) == kNormal && n_characters > 1)
      return invalid("tokenizer.ggml.merges is missing or empty, but token " + std::to_string(id) +
                     " has several characters: convert the model again");
  }
  return {};
}

std::string note_about_merges(const GgufVocabulary& vocabulary, const std::vector<MergeRule>& usable) {
  if (vocabulary.merges.empty() || !usable.empty()) return {};
  return "none of the " + std::to_string(vocabulary.merges.size()) +
         " tokenizer.ggml.merges makes a token: text is cut into single characters; if the model is not one to measure "
         "with, convert it again";
}

/// Control and unknown tokens are special, user-defined ones are found in text but print.
std::vector<AddedToken> added_tokens(const GgufVocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int32_t type = type_of(vocabulary, id);
    if (type != kUnknown && type != kControl && type != kUserDefined) continue;
    AddedToken& token = added.emplace_back();
    token.content = vocabulary.tokens[id];
    token.id = static_cast<TokenId>(id);
    token.special = type != kUserDefined;
  }
  return added;
}

std::vector<std::string> special_texts(const std::vector<AddedToken>& added) {
  std::vector<std::string> special;
  for (const AddedToken& token : added) {
    if (token.special) special.push_back(token.content);
  }
  return special;
}

/// Runs of line feeds that are tokens: models of this kind were trained with each run as a whole, and their
/// tokenizer.json lists them among the added tokens.
void add_line_feeds(const GgufVocabulary& vocabulary, std::vector<AddedToken>& added) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    if (text.size() < 2 || text.find_first_not_of('\n') != std::string::npos) continue;
    AddedToken& token = added.emplace_back();
    token.content = text;
    token.id = static_cast<TokenId>(id);
  }
}

Status set_ends(const GgufVocabulary& vocabulary, int64_t id, bool add, const char* key, TokenId& token,
                TokenIds& around) {
  if (id < 0) return {};
  if (id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    return invalid(std::string(key) + " is " + std::to_string(id) + ", but there are " +
                   std::to_string(vocabulary.tokens.size()) + " tokens");
  }
  token = static_cast<TokenId>(id);
  if (add) around.push_back(token);
  return {};
}

/// What llama.cpp assumes where the file lacks the keys.
struct Defaults {
  int64_t bos = -1, eos = -1;
  bool add_bos = false, add_eos = false;
};

Status set_both_ends(const GgufVocabulary& vocabulary, const Defaults& defaults, Tokenizer::Tables& tables) {
  const auto fits = [&](int64_t id) { return id < static_cast<int64_t>(vocabulary.tokens.size()) ? id : -1; };
  COLIBRI_TRY(set_ends(vocabulary, vocabulary.bos_id < 0 ? fits(defaults.bos) : vocabulary.bos_id,
                       vocabulary.add_bos.value_or(defaults.add_bos), "tokenizer.ggml.bos_token_id", tables.bos,
                       tables.prefix));
  return set_ends(vocabulary, vocabulary.eos_id < 0 ? fits(defaults.eos) : vocabulary.eos_id,
                  vocabulary.add_eos.value_or(defaults.add_eos), "tokenizer.ggml.eos_token_id", tables.eos,
                  tables.suffix);
}

TokenId unknown_token(const GgufVocabulary& vocabulary, int64_t fallback) {
  const int64_t id = vocabulary.unknown_id < 0 ? fallback : vocabulary.unknown_id;
  return id < static_cast<int64_t>(vocabulary.tokens.size()) ? static_cast<TokenId>(id) : -1;
}

// ---- "gpt2" and "gemma4": merges -----------------------------------------------------------------------------------

Result<std::unique_ptr<Tokenizer::Tables>> build_merges(const GgufVocabulary& vocabulary, std::string_view name) {
  const GgufPreTokenizer* pre = find_gguf_pre_tokenizer(name);
  if (!pre) {
    return Error{ErrorCode::kUnsupported, "tokenizer.ggml.pre \"" + std::string(name) + "\" is unknown; known are " +
                                              known_gguf_pre_tokenizers()};
  }
  COLIBRI_TRY(check(vocabulary));
  std::vector<AddedToken> added = added_tokens(vocabulary);
  COLIBRI_ASSIGN(auto tokens, read_tokens(vocabulary.tokens));
  COLIBRI_ASSIGN(auto rules, read_merges(vocabulary.merges));
  drop_foreign_merges(tokens, rules);
  COLIBRI_TRY(check_merges(vocabulary));
  BpeOptions options;
  options.byte_level = !pre->characters;
  options.byte_fallback = pre->characters;
  options.fuse_unknown = pre->characters;
  options.ignore_merges = pre->ignore_merges;
  if (pre->characters) options.unknown = unknown_token(vocabulary, -1);
  COLIBRI_ASSIGN(auto bpe, Bpe::create(std::move(tokens), rules, options, special_texts(added)));
  if (pre->characters) add_line_feeds(vocabulary, added);
  COLIBRI_ASSIGN(auto tables, Tokenizer::Tables::create(std::move(bpe), added));
  if (pre->nfc) tables->normalizer = Normalizer::normal_form(NormalForm::kNfc);
  if (pre->characters) {
    SentencePieceNormalizer blanks;
    blanks.add_dummy_prefix = blanks.remove_extra_whitespaces = false;
    tables->normalizer = Normalizer::sentencepiece(std::move(blanks));
  }
  COLIBRI_ASSIGN(tables->pre_tokenizer, PreTokenizer::isolating(pre->patterns, !pre->characters));
  tables->decoder = pre->characters ? sentencepiece_decoder(0) : Decoder::byte_level();
  COLIBRI_TRY(set_both_ends(vocabulary, {.add_bos = pre->add_bos}, *tables));
  tables->note = note_about_merges(vocabulary, rules);
  if (name.empty()) {
    tables->note =
        "tokenizer.ggml.pre is missing: text is cut as \"default\" says, which may not be how the model was trained; "
        "a file from a newer converter, or the tokenizer.json of the original model, is better";
  }
  return tables;
}

/// Gemma 4 always begins with BOS, whatever the file says.
Result<std::unique_ptr<Tokenizer::Tables>> build_gemma4(GgufVocabulary vocabulary) {
  vocabulary.add_bos = true;
  return build_merges(vocabulary, "gemma4");
}

// ---- "llama" and "t5": scores --------------------------------------------------------------------------------------

/// Whether text may become this id.
std::vector<bool> usable_ids(const GgufVocabulary& vocabulary) {
  std::vector<bool> usable(vocabulary.tokens.size());
  for (size_t id = 0; id < usable.size(); ++id) {
    const int32_t type = type_of(vocabulary, id);
    const bool is_byte = vocabulary.token_types.empty() && fallback_byte(vocabulary.tokens[id]) >= 0;
    usable[id] = (type == kNormal || type == kUserDefined) && !is_byte;
  }
  return usable;
}

Normalizer scored_normalizer(const GgufVocabulary& vocabulary, Charsmap charsmap, bool remove_extra_whitespaces) {
  SentencePieceNormalizer step;
  step.charsmap = std::move(charsmap);
  step.add_dummy_prefix = vocabulary.add_space_prefix.value_or(true);
  step.remove_extra_whitespaces = remove_extra_whitespaces;
  return Normalizer::sentencepiece(std::move(step));
}

Result<std::unique_ptr<Tokenizer::Tables>> build_spm(const GgufVocabulary& vocabulary) {
  COLIBRI_TRY(check(vocabulary));
  COLIBRI_TRY(check_scores(vocabulary));
  const std::vector<AddedToken> added = added_tokens(vocabulary);
  COLIBRI_ASSIGN(auto tokens, read_tokens(vocabulary.tokens));
  COLIBRI_ASSIGN(const auto ranks, ranks_of_scores(vocabulary.scores, usable_ids(vocabulary)));
  BpeOptions options;
  options.byte_fallback = options.fuse_unknown = true;
  options.unknown = unknown_token(vocabulary, 0);
  COLIBRI_ASSIGN(auto bpe, Bpe::create_ranked(std::move(tokens), ranks, options, special_texts(added)));
  COLIBRI_ASSIGN(auto tables, Tokenizer::Tables::create(std::move(bpe), added));
  tables->normalizer = scored_normalizer(vocabulary, Charsmap(), false);
  tables->decoder = sentencepiece_decoder(vocabulary.add_space_prefix.value_or(true) ? 1 : 0);
  COLIBRI_TRY(set_both_ends(vocabulary, {.bos = 1, .eos = 2, .add_bos = true}, *tables));
  return tables;
}

Result<std::unique_ptr<Tokenizer::Tables>> build_unigram(const GgufVocabulary& vocabulary) {
  COLIBRI_TRY(check(vocabulary));
  COLIBRI_TRY(check_scores(vocabulary));
  const std::vector<AddedToken> added = added_tokens(vocabulary);
  COLIBRI_ASSIGN(auto tokens, read_tokens(vocabulary.tokens));
  COLIBRI_ASSIGN(auto charsmap, Charsmap::parse(vocabulary.precompiled_charsmap));
  const std::vector<bool> usable = usable_ids(vocabulary);
  UnigramOptions options;
  options.unknown = unknown_token(vocabulary, 2);
  options.byte_fallback = options.single_precision = true;
  float worst = std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < usable.size(); ++id) worst = usable[id] ? std::min(worst, vocabulary.scores[id]) : worst;
  options.unknown_score = worst - kUnknownPenalty;
  std::vector<double> scores(vocabulary.scores.begin(), vocabulary.scores.end());
  COLIBRI_ASSIGN(auto unigram, Unigram::create(std::move(tokens), std::move(scores), usable, options));
  COLIBRI_ASSIGN(auto tables, Tokenizer::Tables::create(std::move(unigram), added));
  const bool remove_extra = vocabulary.remove_extra_whitespaces.value_or(true);
  tables->normalizer = scored_normalizer(vocabulary, std::move(charsmap), remove_extra);
  const bool dummy = vocabulary.add_space_prefix.value_or(true);
  tables->decoder = sentencepiece_decoder(remove_extra ? kStripAll : dummy ? 1 : 0);
  COLIBRI_TRY(set_both_ends(vocabulary, {.eos = 1, .add_eos = true}, *tables));
  return tables;
}

Result<std::unique_ptr<Tokenizer::Tables>> build(const GgufVocabulary& vocabulary) {
  if (vocabulary.model == "gpt2") return build_merges(vocabulary, vocabulary.pre);
  if (vocabulary.model == "gemma4") return build_gemma4(vocabulary);
  if (vocabulary.model == "llama") return build_spm(vocabulary);
  if (vocabulary.model == "t5") return build_unigram(vocabulary);
  const std::string kind = vocabulary.model == "bert" ? " (WordPiece)" : "";
  return Error{ErrorCode::kUnsupported,
               "tokenizer.ggml.model \"" + vocabulary.model + "\"" + kind +
                   " is not supported; gpt2 and gemma4 (BPE), llama (SentencePiece) and t5 (Unigram) are. Use the "
                   "tokenizer.json of the original model instead"};
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocabulary& vocabulary, const std::string& source) {
  auto tables = build(vocabulary);
  if (tables.ok()) (*tables)->finish();
  return from_tables(std::move(tables), source);
}

}  // namespace colibri::text
