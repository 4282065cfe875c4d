#include "text/byte_fallback.h"

namespace colibri::text {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string fallback_spelling(unsigned byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte / 16 % 16], kDigits[byte % 16], '>'};
}

int fallback_byte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::array<TokenId, 256> fallback_tokens(const Vocabulary& vocabulary) {
  std::array<TokenId, 256> out;
  for (unsigned byte = 0; byte < 256; ++byte) out[byte] = vocabulary.find(fallback_spelling(byte));
  return out;
}

}  // namespace colibri::text
