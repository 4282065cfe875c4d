#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace colibri::text {
namespace {

constexpr char32_t kFirstExtra = 256, kLetters = 512;

constexpr bool prints(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Letter {
  char text[2];
  uint8_t size;
};

struct Alphabet {
  std::array<Letter, 256> letters{};
  std::array<int16_t, kLetters> bytes{};  // byte of a letter, -1 when it is none

  constexpr Alphabet() {
    for (auto& byte : bytes) byte = -1;
    char32_t extra = kFirstExtra;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t c = prints(byte) ? byte : extra++;
      bytes[c] = static_cast<int16_t>(byte);
      letters[byte] = c < 0x80 ? Letter{{static_cast<char>(c), 0}, 1}
                               : Letter{{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))}, 2};
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string_view byte_letter(uint8_t byte) {
  const Letter& letter = kAlphabet.letters[byte];
  return {letter.text, letter.size};
}

void append_byte_letters(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) out.append(byte_letter(static_cast<uint8_t>(byte)));
}

void append_letter_bytes(std::string_view spelling, std::string& out) {
  const size_t before = out.size();
  for (size_t pos = 0; pos < spelling.size();) {
    const char32_t c = next_character(spelling, pos);
    const int byte = c < kLetters ? kAlphabet.bytes[c] : -1;
    if (byte < 0) {
      out.resize(before);
      out.append(spelling);
      return;
    }
    out.push_back(static_cast<char>(byte));
  }
}

}  // namespace colibri::text
