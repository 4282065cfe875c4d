// SentencePieceNormalizer: what SentencePiece does to text before it cuts it, equal to the library.
//
// User-defined symbols stay as they are; everything else goes through the charsmap, the longest match at each place;
// blanks are trimmed and joined where the model says so and become U+2581, and one is put in front (or behind).
// A step of Normalizer. Ownership: a value. Thread-safety: const functions may run in several threads.
#pragma once

#include <string>
#include <string_view>

#include "text/charsmap.h"
#include "text/string_set.h"

namespace colibri::text {

struct SentencePieceNormalizer {
  Charsmap charsmap;
  StringSet user_defined;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;  ///< the dummy blank goes behind the text

  /// REQUIRES: valid UTF-8.
  void apply(std::string& text) const;

 private:
  struct Step {
    std::string_view text;
    size_t consumed;
  };
  Step step(std::string_view rest) const;
  void append(std::string_view text, std::string& out) const;
  std::string_view blank() const { return escape_whitespaces ? "\xE2\x96\x81" : " "; }
};

}  // namespace colibri::text
