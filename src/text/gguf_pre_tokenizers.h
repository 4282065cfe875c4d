// What the names in a GGUF file's tokenizer.ggml.pre mean: patterns, normal form, look-up of whole pieces.
//
// A GGUF file stores no pre-tokenizer, only this name; the patterns are those of the tokenizer.json that the name was
// made for. One table; tokenizer_gguf.cc reads it, the error about an unknown name lists it.
// Thread-safety: constants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colibri::text {

struct GgufPreTokenizer {
  std::vector<std::string_view> names;
  std::vector<std::string_view> patterns;  ///< applied one after the other, matches isolated
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  ///< where the file does not say it
  bool characters =
      false;  ///< BPE on characters of the whole text, with U+2581 for blanks and byte fallback, instead of on bytes
};

/// nullptr when nothing is known under that name. An empty name is "default".
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

/// All names, separated by ", ".
std::string known_gguf_pre_tokenizers();

}  // namespace colibri::text
