#include "text/base64.h"

#include <array>
#include <cstdint>

namespace colibri::text {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> values() {
  std::array<int8_t, 256> out{};
  for (auto& value : out) value = -1;
  for (size_t i = 0; i < kAlphabet.size(); ++i) out[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  return out;
}

constexpr std::array<int8_t, 256> kValues = values();

}  // namespace

bool append_base64(std::string_view text, std::string& out) {
  if (text.size() % 4 != 0) return false;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    const int8_t value = kValues[static_cast<uint8_t>(c)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out.push_back(static_cast<char>(bits >> n_bits & 0xFF));
  }
  return n_bits != 6;
}

}  // namespace colibri::text
