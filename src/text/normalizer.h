// Normalizer: what a tokenizer does to text before it is cut into pieces.
//
// Ownership: a value. Thread-safety: const functions may run in several threads, each with its own RegexWorkspace.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/sentencepiece_normalizer.h"
#include "text/unicode.h"

namespace colibri::text {

class Normalizer {
 public:
  /// The member "normalizer" of a tokenizer.json; null or absent does nothing. Errors name what is not supported.
  static Result<Normalizer> parse(const Json* json);
  static Normalizer normal_form(NormalForm form);
  static Normalizer sentencepiece(SentencePieceNormalizer step);

  /// REQUIRES: valid UTF-8.
  void apply(std::string& text, RegexWorkspace& workspace) const;

 private:
  struct Lowercase {};
  struct StripAccents {};
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Prepend {
    std::string content;
  };
  struct Strip {
    bool left = true, right = true;
  };
  struct Nmt {};          // control characters vanish, odd blanks become blanks
  struct ByteLetters {};  // bytes become the byte-level letters
  struct Precompiled {    // as `tokenizers` walks it, grapheme by grapheme
    std::shared_ptr<const Charsmap> charsmap;
  };
  using SentencePiece = std::shared_ptr<const SentencePieceNormalizer>;
  using Step = std::variant<NormalForm, Lowercase, StripAccents, Replace, Prepend, Strip, Nmt, ByteLetters, Precompiled,
                            SentencePiece>;

  Status add(const Json& json);
  Status add_replace(const Json& json);
  Status add_precompiled(const Json& json);
  struct Apply;

  std::vector<Step> steps_;
};

}  // namespace colibri::text
