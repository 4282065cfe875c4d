// The byte-level alphabet: a visible letter for each of the 256 bytes, as GPT-2 chose them.
//
// Bytes that print (ASCII and Latin-1 without blanks) stand for themselves, the others for U+0100 upwards in order; the
// blank is U+0120. Vocabularies of byte-level BPE spell their tokens with these letters. Thread-safety: constants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::text {

/// The letter of a byte, one or two bytes of UTF-8.
std::string_view byte_letter(uint8_t byte);

/// `bytes` in letters.
void append_byte_letters(std::string_view bytes, std::string& out);

/// The bytes that `spelling` stands for; `spelling` itself when one of its characters is no such letter.
void append_letter_bytes(std::string_view spelling, std::string& out);

}  // namespace colibri::text
