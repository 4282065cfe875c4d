// Byte fallback: the tokens "<0x00>" to "<0xFF>", which stand for bytes that no other token covers.
//
// Used by the models that fall back to them and by the decoder. Thread-safety: free functions.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace colibri::text {

std::string fallback_spelling(unsigned byte);  ///< "<0x0A>"

/// The byte that a token stands for, -1 when it is no such token.
int fallback_byte(std::string_view token);

/// The id of each byte's token, -1 where the vocabulary lacks it.
std::array<TokenId, 256> fallback_tokens(const Vocabulary& vocabulary);

}  // namespace colibri::text
