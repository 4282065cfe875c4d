// From the blocks of the file types to strips. Each output's blocks are taken apart in words of four or eight inputs,
// which land in lines of the strip: a strip and its blocks stay in the first cache while that happens.
#include <cstring>

#include "tensor/convert.h"
#include "tensor/strip.h"

namespace colibri {
namespace {

// Where one output's words of a strip go; the next line of the same output is kLineBytes further.
struct Lane {
  std::byte* scales;  // of all outputs
  int64_t output;
  std::byte* low;
  std::byte* high;
};

template <typename T>
T load(const std::byte* src) {
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

void store_line(std::byte* lane, int64_t line, uint32_t word) { std::memcpy(lane + line * kLineBytes, &word, 4); }

// One half in a row of 16.
void copy_half(const std::byte* src, std::byte* halves, int64_t output) { std::memcpy(halves + 2 * output, src, 2); }

// `bytes` bytes of codes, whose low nibbles are as many inputs and whose high nibbles are the next inputs.
void pack_nibbles(const std::byte* src, int64_t bytes, std::byte* low) {
  const auto word = [](uint64_t nibbles) { return static_cast<uint32_t>(nibbles | nibbles >> 28); };
  for (int64_t i = 0; i < bytes; i += 8) {
    const auto codes = load<uint64_t>(src + i);
    store_line(low, i / 8, word(codes & 0x0f0f0f0f0f0f0f0fu));
    store_line(low, (bytes + i) / 8, word(codes >> 4 & 0x0f0f0f0f0f0f0f0fu));
  }
}

// Exchanges the bits under `mask` with those `shift` places higher.
uint32_t swap_bits(uint32_t x, int shift, uint32_t mask) {
  const uint32_t different = (x ^ x >> shift) & mask;
  return x ^ different ^ different << shift;
}

// Bit 4 f + i (the fifth bit of input 4 f + i) becomes bit f of byte i: a rotation of the bit's five-digit index by
// two.
uint32_t fifth_bits(uint32_t bits) {
  bits = swap_bits(bits, 14, 0x0000cccc);
  bits = swap_bits(bits, 7, 0x00aa00aa);
  bits = swap_bits(bits, 2, 0x0c0c0c0c);
  return swap_bits(bits, 1, 0x22222222);
}

// Sees each byte of `words` as n fields of 8 / n bits: field f of word g becomes field g of word f, in each byte alone.
template <int n>
void transpose_fields(uint32_t (&words)[n]) {
  for (int distance = n / 2; distance > 0; distance /= 2) {
    const int shift = distance * 8 / n;
    const uint32_t mask = 0xffffffffu / ((1u << shift) + 1);  // the lower `shift` of each 2 * shift bits
    for (int f = 0; f < n; ++f) {
      if (f & distance) continue;
      uint32_t& a = words[f];
      uint32_t& b = words[f + distance];
      const uint32_t different = (a >> shift ^ b) & mask;
      a ^= different << shift;
      b ^= different;
    }
  }
}

void pack_q8_0(const std::byte* src, int64_t inputs, const Lane& lane) {
  for (int64_t group = 0; group < inputs / 32; ++group, src += 34) {
    copy_half(src, lane.scales + 32 * group, lane.output);
    for (int64_t i = 0; i < 8; ++i)  // int8 to q + 128
      store_line(lane.low, 8 * group + i, load<uint32_t>(src + 2 + 4 * i) ^ 0x80808080u);
  }
}

// The types with blocks of 32 inputs: scale (an exponent, d, or d and m), fifth bits if any, 16 bytes of nibbles.
template <int scale_bytes, bool fifth_bit>
void pack_32(const std::byte* src, int64_t inputs, const Lane& lane) {
  constexpr int kCodes = scale_bytes + (fifth_bit ? 4 : 0);
  for (int64_t group = 0; group < inputs / 32; ++group, src += kCodes + 16) {
    std::byte* scales = lane.scales + 16 * scale_bytes * group;
    if constexpr (scale_bytes == 1) scales[lane.output] = src[0];
    if constexpr (scale_bytes >= 2) copy_half(src, scales, lane.output);
    if constexpr (scale_bytes == 4) copy_half(src + 2, scales + 32, lane.output);
    if constexpr (fifth_bit) store_line(lane.high, group, fifth_bits(load<uint32_t>(src + scale_bytes)));
    pack_nibbles(src + kCodes, 16, lane.low + 4 * group * kLineBytes);
  }
}

// The four low nibbles of a word's bytes, and the two low bits of each byte.
uint32_t low_nibbles(uint32_t word) {
  word &= 0x0f0f0f0fu;
  word |= word >> 4;
  return (word & 0xffu) | (word >> 8 & 0xff00u);
}
uint32_t low_pairs(uint32_t word) {
  word &= 0x03030303u;
  word |= word >> 6;
  return (word & 0xfu) | (word >> 12 & 0xf0u);
}

// d, dmin and eight six-bit (scale, minimum) pairs. In the file's 12 bytes, bytes 0 to 3 and 4 to 7 have the first four
// scales and minima in their lower six bits; bytes 8 to 11 have the low nibbles of the last four of both, whose upper
// two bits are the upper bits of bytes 0 to 7.
void pack_k_scales(const std::byte* src, const Lane& lane) {
  copy_half(src, lane.scales, lane.output);
  copy_half(src + 2, lane.scales + 32, lane.output);
  const auto scales = load<uint32_t>(src + 4), minima = load<uint32_t>(src + 8), last = load<uint32_t>(src + 12);
  std::byte* words = lane.scales + kLineBytes + 4 * lane.output;
  store_line(words, 0, low_nibbles(scales) | low_nibbles(last) << 16);
  store_line(words, 1, low_nibbles(minima) | low_nibbles(last >> 4) << 16);
  store_line(words, 2,
             low_pairs(scales >> 4) | low_pairs(minima >> 4) << 8 | low_pairs(scales >> 6) << 16 |
                 low_pairs(minima >> 6) << 24);
}

void pack_q4_k(const std::byte* src, int64_t /*inputs*/, const Lane& lane) {
  pack_k_scales(src, lane);
  for (int64_t i = 0; i < 4; ++i) pack_nibbles(src + 16 + 32 * i, 32, lane.low + 8 * i * kLineBytes);
}

// Bit g of byte l of 32 bytes is a bit of input 32 g + l.
void pack_bits(const std::byte* src, std::byte* lines) {
  uint32_t bits[8];
  std::memcpy(bits, src, sizeof bits);
  transpose_fields(bits);
  for (int64_t g = 0; g < 8; ++g) store_line(lines, g, bits[g]);
}

// Two halves of 128 inputs. Bits 2 p and 2 p + 1 of byte l of a half's 32 bytes belong to its input 32 p + l.
void pack_pairs(const std::byte* src, std::byte* lines) {
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t sixteen = 0; sixteen < 2; ++sixteen) {
      uint32_t bits[4];
      std::memcpy(bits, src + 32 * half + 16 * sixteen, sizeof bits);
      transpose_fields(bits);
      for (int64_t p = 0; p < 4; ++p) store_line(lines, 8 * half + 2 * p + sixteen, bits[p]);
    }
  }
}

void pack_q5_k(const std::byte* src, int64_t /*inputs*/, const Lane& lane) {
  pack_k_scales(src, lane);
  for (int64_t part = 0; part < 4; ++part) pack_nibbles(src + 48 + 32 * part, 32, lane.low + 8 * part * kLineBytes);
  pack_bits(src + 16, lane.high);
}

void pack_q6_k(const std::byte* src, int64_t /*inputs*/, const Lane& lane) {
  for (int64_t g = 0; g < 16; ++g) lane.scales[16 * g + lane.output] = src[192 + g];
  copy_half(src + 208, lane.scales + 256, lane.output);
  for (int64_t half = 0; half < 2; ++half) pack_nibbles(src + 64 * half, 64, lane.low + 16 * half * kLineBytes);
  pack_pairs(src + 128, lane.high);
}

void pack_q2_k(const std::byte* src, int64_t /*inputs*/, const Lane& lane) {
  for (int64_t j = 0; j < 16; ++j) lane.scales[16 * j + lane.output] = src[j];
  copy_half(src + 80, lane.scales + 256, lane.output);
  copy_half(src + 82, lane.scales + 288, lane.output);
  pack_pairs(src + 16, lane.low);
}

// The low four bits of scale j are nibble j / 8 of byte j % 8 of the twelve, the upper two are pair j / 4 of byte 8 + j
// %
// 4. Here j / 2 and j % 2, and j / 4 and j % 4, as in the other types.
void pack_q3_k_scales(const std::byte* twelve, const Lane& lane) {
  uint8_t scales[16];
  for (int64_t j = 0; j < 16; ++j) {
    const int low = static_cast<int>(twelve[j % 8]) >> j / 8 * 4 & 15;
    scales[j] = static_cast<uint8_t>(low | (static_cast<int>(twelve[8 + j % 4]) >> j / 4 * 2 & 3) << 4);
  }
  for (int64_t i = 0; i < 8; ++i)
    lane.scales[16 * i + lane.output] = static_cast<std::byte>((scales[2 * i] & 15) | scales[2 * i + 1] << 4);
  for (int64_t i = 0; i < 4; ++i) {
    const uint8_t* four = scales + 4 * i;
    lane.scales[128 + 16 * i + lane.output] =
        static_cast<std::byte>(four[0] >> 4 | four[1] >> 4 << 2 | four[2] >> 4 << 4 | four[3] >> 4 << 6);
  }
}

void pack_q3_k(const std::byte* src, int64_t /*inputs*/, const Lane& lane) {
  pack_q3_k_scales(src + 96, lane);
  copy_half(src + 108, lane.scales + 192, lane.output);
  pack_pairs(src + 32, lane.low);
  pack_bits(src, lane.high);
}

// Half d; uint16 with two upper bits of eight scales; nibbles[4], their low bits; then nibbles. Here the two bytes of
// the upper bits and the four of the low ones stand apart.
void pack_iq4_xs(const std::byte* src, int64_t /*inputs*/, const Lane& lane) {
  copy_half(src, lane.scales, lane.output);
  for (int64_t i = 0; i < 4; ++i) lane.scales[32 + 16 * i + lane.output] = src[4 + i];
  for (int64_t i = 0; i < 2; ++i) lane.scales[96 + 16 * i + lane.output] = src[2 + i];
  for (int64_t g = 0; g < 8; ++g) pack_nibbles(src + 8 + 16 * g, 16, lane.low + 4 * g * kLineBytes);
}

void pack_quantised(Encoding encoding, const std::byte* src, int64_t inputs, const Lane& lane) {
  switch (encoding) {
    case Encoding::kQ8_0:
      return pack_q8_0(src, inputs, lane);
    case Encoding::kQ4_0:
    case Encoding::kIQ4_NL:
      return pack_32<2, false>(src, inputs, lane);
    case Encoding::kQ4_1:
      return pack_32<4, false>(src, inputs, lane);
    case Encoding::kQ5_0:
      return pack_32<2, true>(src, inputs, lane);
    case Encoding::kQ5_1:
      return pack_32<4, true>(src, inputs, lane);
    case Encoding::kMXFP4:
      return pack_32<1, false>(src, inputs, lane);
    case Encoding::kQ4_K:
      return pack_q4_k(src, inputs, lane);
    case Encoding::kQ5_K:
      return pack_q5_k(src, inputs, lane);
    case Encoding::kQ6_K:
      return pack_q6_k(src, inputs, lane);
    case Encoding::kIQ4_XS:
      return pack_iq4_xs(src, inputs, lane);
    case Encoding::kQ2_K:
      return pack_q2_k(src, inputs, lane);
    case Encoding::kQ3_K:
      return pack_q3_k(src, inputs, lane);
    default:
      return;  // pack_plain, pack_blocks, pack_codes
  }
}

void pack_blocks(const std::byte* const rows[kPanelWidth], int64_t bytes, std::byte* dst) {
  for (int64_t output = 0; output < kPanelWidth; ++output, dst += bytes)
    std::memcpy(dst, rows[output], static_cast<size_t>(bytes));
}

template <typename T>
void pack_plain(const std::byte* const rows[kPanelWidth], int64_t inputs, std::byte* dst) {
  for (int64_t output = 0; output < kPanelWidth; ++output)
    for (int64_t i = 0; i < inputs; ++i)
      std::memcpy(dst + (i * kPanelWidth + output) * static_cast<int64_t>(sizeof(T)),
                  rows[output] + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

}  // namespace

void pack_strip(Encoding encoding, const std::byte* const rows[kPanelWidth], int64_t inputs, std::byte* dst) {
  if (encoding == Encoding::kF32) return pack_plain<uint32_t>(rows, inputs, dst);
  if (!is_quantised(encoding)) return pack_plain<uint16_t>(rows, inputs, dst);
  const StripLayout layout = strip_layout(encoding, inputs);
  if (is_blocks(encoding)) return pack_blocks(rows, layout.bytes / kPanelWidth, dst);
  std::memset(dst + layout.scales, 0, static_cast<size_t>(layout.low - layout.scales));
  for (int64_t output = 0; output < kPanelWidth; ++output)
    pack_quantised(encoding, rows[output], inputs,
                   {dst, output, dst + layout.low + 4 * output, dst + layout.high + 4 * output});
}

void fill_zero_weights(Encoding encoding, int64_t inputs, std::byte* blocks) {
  const DTypeInfo& type = info(format_of(encoding).dtype);
  std::memset(blocks, 0, static_cast<size_t>(file_bytes(type, inputs)));  // all scales zero, and most codes
  const auto fill = [&](int64_t first, int64_t last, int value) {         // where the code of 0 is not zero: +0, not -0
    for (int64_t block = 0; block < inputs / type.block_elements; ++block)
      std::memset(blocks + block * type.block_bytes + first, value, static_cast<size_t>(last - first));
  };
  if (encoding == Encoding::kQ4_0) fill(2, 18, 0x88);
  if (encoding == Encoding::kQ5_0) fill(2, 6, 0xff);
  if (encoding == Encoding::kQ6_K) fill(128, 192, 0xaa);
  if (encoding == Encoding::kIQ4_NL) fill(2, 18, 0x88);  // 1, the smallest that is not negative
  if (encoding == Encoding::kIQ1_S) {                    // the last point of the grid is all ones
    fill(2, 34, 0xff);
    for (int i = 0; i < 8; ++i) {
      fill(34 + 2 * i, 35 + 2 * i, 0xff);
      fill(35 + 2 * i, 36 + 2 * i, 0x0f);
    }
  }
  if (encoding == Encoding::kIQ1_M) {
    fill(0, 32, 0xff);
    fill(32, 48, 0x77);
  }
  if (encoding == Encoding::kTQ1_0) fill(0, 52, 0xff);
  if (encoding == Encoding::kTQ2_0) fill(0, 64, 0x55);
  if (encoding == Encoding::kQ1_0) fill(2, 18, 0xff);
}

}  // namespace colibri
