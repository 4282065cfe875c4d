// Charsmap: SentencePiece's "precompiled_charsmap", which maps strings to their normal form (usually NFKC and more).
//
// The blob is a size, a double-array trie of that many bytes (Darts-clone), and zero-terminated texts. It is read as it
// stands, every step checked: the bytes come from a file. Used by Normalizer, in the two ways that libraries walk it.
// Ownership: a value, constant after parse(). Thread-safety: const functions may run in several threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace colibri::text {

class Charsmap {
 public:
  /// An empty blob maps nothing. kInvalidModel when the sizes do not fit.
  static Result<Charsmap> parse(std::string_view blob);

  struct Hit {
    size_t length = 0;      ///< bytes of the text, whole characters; 0: nothing is mapped here
    std::string_view text;  ///< what stands for them, valid UTF-8
  };
  /// REQUIRES: valid UTF-8.
  Hit longest(std::string_view text) const { return find(text, true); }
  Hit shortest(std::string_view text) const { return find(text, false); }
  bool empty() const { return units_.empty(); }

 private:
  Hit find(std::string_view text, bool longest) const;
  std::string_view text_at(size_t offset) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace colibri::text
