#include "tensor/convert.h"

#include <cstring>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/packed.h"

namespace colibri {
namespace {

// File bytes have no alignment, so every element is read through memcpy.
template <typename T>
T load(const std::byte* src) {
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}

void f16_row(const std::byte* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = f16_to_f32(load<uint16_t>(src + 2 * i));
}

void bf16_row(const std::byte* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = bf16_to_f32(load<uint16_t>(src + 2 * i));
}

float half(const std::byte* src) { return f16_to_f32(load<uint16_t>(src)); }

int byte(const std::byte* src, int64_t i) { return static_cast<int>(src[i]); }

// Calls block(src, dst) for each block of a row.
template <int elements, int bytes, typename Block>
void each_block(const std::byte* src, int64_t n, float* dst, Block block) {
  for (int64_t first = 0; first < n; first += elements, src += bytes) block(src, dst + first);
}

// The blocks of ggml, described in docs/encodings.md. Each product and difference is one float operation, in the order
// of ggml's own dequantisation: the values are equal to the last bit.

void q8_0_block(const std::byte* src, float* dst) {  // half d, int8 q[32]
  const float d = half(src);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(load<int8_t>(src + 2 + i));
}

// Element i (0 .. 31) of 16 bytes of nibbles: low ones first.
int nibble(const std::byte* codes, int i) { return byte(codes, i % 16) >> i / 16 * 4 & 15; }

void q4_0_block(const std::byte* src, float* dst) {  // half d, nibbles[16]
  const float d = half(src);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(nibble(src + 2, i) - 8);
}

void q4_1_block(const std::byte* src, float* dst) {  // half d, half m, nibbles[16]
  const float d = half(src), m = half(src + 2);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(nibble(src + 4, i)) + m;
}

// Nibble and fifth bit of element i: uint32 with a bit per element, nibbles[16].
int five_bits(const std::byte* codes, int i) {
  return nibble(codes + 4, i) | static_cast<int>(load<uint32_t>(codes) >> i & 1) << 4;
}

void q5_0_block(const std::byte* src, float* dst) {  // half d, uint32, nibbles[16]
  const float d = half(src);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(five_bits(src + 2, i) - 16);
}

void q5_1_block(const std::byte* src, float* dst) {  // half d, half m, uint32, nibbles[16]
  const float d = half(src), m = half(src + 2);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(five_bits(src + 4, i)) + m;
}

void mxfp4_block(const std::byte* src, float* dst) {  // exponent, nibbles[16]
  const float scale = half_e8m0_to_f32(static_cast<uint8_t>(src[0]));
  for (int i = 0; i < 32; ++i) dst[i] = scale * static_cast<float>(kMxfp4Values[nibble(src + 1, i)]);
}

void iq4_nl_block(const std::byte* src, float* dst) {  // half d, nibbles[16]
  const float d = half(src);
  for (int i = 0; i < 32; ++i) dst[i] = d * static_cast<float>(kIq4Values[nibble(src + 2, i)]);
}

// Half d; uint16 with two upper bits of eight scales; nibbles[4], their low bits; per 32 elements nibbles[16].
void iq4_xs_block(const std::byte* src, float* dst) {
  const float d = half(src);
  const auto high = load<uint16_t>(src + 2);
  for (int g = 0; g < 8; ++g) {
    const int scale = (byte(src + 4, g / 2) >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
    const float step = d * static_cast<float>(scale - 32);
    for (int i = 0; i < 32; ++i) *dst++ = step * static_cast<float>(kIq4Values[nibble(src + 8 + 16 * g, i)]);
  }
}

// Scale and minimum of the 32 elements of group g, from the twelve bytes that hold eight six-bit pairs.
struct ScaleAndMinimum {
  int scale, minimum;
};
ScaleAndMinimum k_scales(const std::byte* twelve, int g) {
  if (g < 4) return {byte(twelve, g) & 63, byte(twelve, g + 4) & 63};
  return {(byte(twelve, g + 4) & 15) | byte(twelve, g - 4) >> 6 << 4,
          byte(twelve, g + 4) >> 4 | byte(twelve, g) >> 6 << 4};
}

// Blocks of 256 in eight groups: half d, half dmin, twelve bytes of scales, then codes. code(g, i): element i of group
// g.
template <typename Code>
void k_block(const std::byte* src, float* dst, Code code) {
  const float d = half(src), dmin = half(src + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleAndMinimum pair = k_scales(src + 4, g);
    const float scale = d * static_cast<float>(pair.scale);
    const float minimum = dmin * static_cast<float>(pair.minimum);
    for (int i = 0; i < 32; ++i) *dst++ = scale * static_cast<float>(code(g, i)) - minimum;
  }
}

// Groups 2 i and 2 i + 1 are the low and high nibbles of the same 32 bytes.
int k_nibble(const std::byte* codes, int g, int i) { return byte(codes, g / 2 * 32 + i) >> g % 2 * 4 & 15; }

void q4_k_block(const std::byte* src, float* dst) {  // ..., nibbles[128]
  k_block(src, dst, [src](int g, int i) { return k_nibble(src + 16, g, i); });
}

void q5_k_block(const std::byte* src, float* dst) {  // ..., fifth bits[32] (bit g of byte i), nibbles[128]
  k_block(src, dst, [src](int g, int i) { return k_nibble(src + 48, g, i) | (byte(src + 16, i) >> g & 1) << 4; });
}

// Nibbles[128], upper bit pairs[64], int8 scales[16], half d. Two halves of 128 elements: four quarters q of 32.
void q6_k_block(const std::byte* src, float* dst) {
  const float d = half(src + 208);
  for (int e = 0; e < 256; ++e) {
    const int h = e / 128, q = e / 32 % 4, i = e % 32;
    const int low = byte(src, h * 64 + q % 2 * 32 + i) >> q / 2 * 4 & 15;
    const int high = byte(src, 128 + h * 32 + i) >> q * 2 & 3;
    const float scale = d * static_cast<float>(load<int8_t>(src + 192 + e / 16));
    dst[e] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

// Element e of 64 bytes of bit pairs, in two halves of four quarters of 32.
int bit_pair(const std::byte* src, int e) { return byte(src, e / 128 * 32 + e % 32) >> e / 32 % 4 * 2 & 3; }

// Nibbles[16] of scale and minimum, bit pairs[64], half d, half dmin.
void q2_k_block(const std::byte* src, float* dst) {
  const float d = half(src + 80), dmin = half(src + 82);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(byte(src, e / 16) & 15);
    const float minimum = dmin * static_cast<float>(byte(src, e / 16) >> 4);
    dst[e] = scale * static_cast<float>(bit_pair(src + 16, e)) - minimum;
  }
}

// High bits[32], bit pairs[64], six-bit scales[12], half d. The low four bits of the scales are nibbles of eight bytes,
// the upper two are pairs of four more.
void q3_k_block(const std::byte* src, float* dst) {
  const float d = half(src + 108);
  const std::byte* scales = src + 96;
  for (int e = 0; e < 256; ++e) {
    const int j = e / 16, low = byte(scales, j % 8) >> j / 8 * 4 & 15, high = byte(scales, 8 + j % 4) >> j / 4 * 2 & 3;
    const int code = bit_pair(src + 32, e) | (byte(src, e % 32) >> e / 32 & 1) << 2;
    dst[e] = d * static_cast<float>((low | high << 4) - 32) * static_cast<float>(code - 4);
  }
}

}  // namespace

uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));  // quiet NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the subnormal, rounded to even, in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xfffu + odd) >> 13));
}

uint16_t f32_to_bf16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);  // keep NaN a NaN
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

void convert_to_f32(DType dtype, const std::byte* src, int64_t n, float* dst) {
  COLIBRI_CHECK(n >= 0 && n % info(dtype).block_elements == 0);
  if (n == 0) return;
  switch (dtype) {
    case DType::kF32:
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(float));
      return;
    case DType::kF16:
      f16_row(src, n, dst);
      return;
    case DType::kBF16:
      bf16_row(src, n, dst);
      return;
    case DType::kQ8_0:
      return each_block<32, 34>(src, n, dst, q8_0_block);
    case DType::kQ4_0:
      return each_block<32, 18>(src, n, dst, q4_0_block);
    case DType::kQ4_1:
      return each_block<32, 20>(src, n, dst, q4_1_block);
    case DType::kQ5_0:
      return each_block<32, 22>(src, n, dst, q5_0_block);
    case DType::kQ5_1:
      return each_block<32, 24>(src, n, dst, q5_1_block);
    case DType::kMXFP4:
      return each_block<32, 17>(src, n, dst, mxfp4_block);
    case DType::kQ4_K:
      return each_block<256, 144>(src, n, dst, q4_k_block);
    case DType::kQ5_K:
      return each_block<256, 176>(src, n, dst, q5_k_block);
    case DType::kQ6_K:
      return each_block<256, 210>(src, n, dst, q6_k_block);
    case DType::kQ2_K:
      return each_block<256, 84>(src, n, dst, q2_k_block);
    case DType::kQ3_K:
      return each_block<256, 110>(src, n, dst, q3_k_block);
    case DType::kIQ4_NL:
      return each_block<32, 18>(src, n, dst, iq4_nl_block);
    case DType::kIQ4_XS:
      return each_block<256, 136>(src, n, dst, iq4_xs_block);
    default:
      COLIBRI_CHECK(block_codec(dtype) != nullptr);
      return block_codec(dtype)->convert(src, n, dst);
  }
}

}  // namespace colibri
