// Tokenizer: text <-> token ids, equal to Hugging Face `tokenizers` id by id.
//
// BPE on bytes or characters with byte fallback, and Unigram; from a tokenizer.json, a SentencePiece model, a tiktoken
// or tekken file, or the vocabulary keys of a GGUF file. Ownership: a value type over shared immutable tables; copies
// are cheap. Thread-safety: const functions may run in several threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/token_ids.h"

namespace colibri::text {

/// The tokenizer.ggml.* keys of a GGUF file, copied out by the caller.
struct GgufVocabulary {
  /// tokenizer.ggml.model: "gpt2" byte-level BPE, "llama" SentencePiece BPE, "t5" Unigram, "gemma4" BPE on characters
  std::string model;
  std::string pre;  ///< tokenizer.ggml.pre: names the pre-tokeniser's pattern
  std::vector<std::string> tokens;
  std::vector<int32_t> token_types;  ///< 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; may be empty
  std::vector<std::string> merges;
  std::vector<float> scores;         ///< llama and t5
  std::string precompiled_charsmap;  ///< t5; bytes
  /// -1: the key is absent.
  int64_t bos_id = -1, eos_id = -1, unknown_id = -1;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};

struct EncodeOptions {
  bool add_special = false;  ///< apply the post-processor (BOS etc.)
  /// Recognise special tokens that are written in the text. False for text from users: then nothing in it gives one.
  /// Added tokens that are not special (<think>) are recognised either way.
  bool parse_special = true;
};

class Tokenizer {
 public:
  /// `config`: tokenizer_config.json, or null. Errors name what is not supported. `source` is the file's name, for
  /// messages.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json, const Json& config, const std::string& source);
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary, const std::string& source);
  /// `model`: the bytes of a tokenizer.model (BPE or Unigram).
  static Result<Tokenizer> from_sentencepiece(std::string_view model, const Json& config, const std::string& source);
  /// `ranks`: the text of a tiktoken file. Its name without folder and `config` tell the family, which decides about
  /// the pattern and the special tokens.
  static Result<Tokenizer> from_tiktoken(std::string_view ranks, const Json& config, const std::string& source);
  static Result<Tokenizer> from_tekken(std::string_view tekken_json, const Json& config, const std::string& source);

  /// Bytes that are no UTF-8 are read as U+FFFD. Takes O(n log n) time whatever the text.
  TokenIds encode(std::string_view text, EncodeOptions options = {}) const;
  /// Text of a sequence; bytes that are no UTF-8 become U+FFFD. Ids outside the vocabulary give nothing.
  std::string decode(const TokenIds& ids, bool skip_special = false) const;

  int32_t vocab_size() const;  ///< largest id + 1
  /// Id of a token by its exact text (an added token's content, or a vocabulary entry), -1 when absent.
  TokenId find(std::string_view token) const;
  /// The token's own spelling in the vocabulary (byte-level letters, not bytes); empty when absent.
  std::string_view spelling(TokenId id) const;
  bool is_special(TokenId id) const;
  /// The bytes that a token adds in the middle of a text; may be part of a character. Empty when absent, and for all
  /// tokens of a tokenizer whose text depends on the neighbours (it joins tokens with blanks).
  std::string bytes(TokenId id) const;
  TokenId bos_id() const;  ///< -1 when none
  TokenId eos_id() const;  ///< -1 when none
  /// What a user should know about how it was read (a guess that had to be made); empty: nothing.
  const std::string& note() const;

  struct Tables;

 private:
  friend class Detokenizer;
  static Result<Tokenizer> from_tables(Result<std::unique_ptr<Tables>> tables, const std::string& source);
  explicit Tokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

}  // namespace colibri::text
