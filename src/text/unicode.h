// Properties and normal forms of Unicode, from utf8proc, with the meanings that Hugging Face `tokenizers` gives them.
//
// Used by normalisers and added tokens; the pre-tokeniser asks PCRE2 instead. Thread-safety: free functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace colibri::text {

bool is_whitespace(char32_t character);  ///< property White_Space
bool is_word(char32_t character);        ///< Alphabetic, M, Nd, Pc, joiners (Rust's \w)
bool is_mark(char32_t character);        ///< categories Mn, Mc, Me

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// Time is O(n log n) whatever the order of the marks. REQUIRES: valid UTF-8.
void normalize(NormalForm form, std::string& text);

/// Calls visit(grapheme) for each extended grapheme cluster in turn. REQUIRES: valid UTF-8.
void each_grapheme(std::string_view text, const std::function<void(std::string_view)>& visit);

/// Full lower case, character by character (no final sigma). REQUIRES: valid UTF-8.
void lowercase(std::string& text);

}  // namespace colibri::text
