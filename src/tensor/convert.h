// File types to float: exact, one row at a time. The scalar truth that every packed encoding is tested against.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace colibri {

inline float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

/// Exact, subnormals included. Without branches, so that loops over it can be vectorised.
inline float f16_to_f32(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t mantissa = h & 0x3ffu;
  const uint32_t wide = exponent + 112u + 112u * (exponent == 31);  // 112 = 127 - 15; 31 becomes 255
  // Zero and subnormals: mantissa * 2^-24, exact in float.
  const auto small = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(mantissa)) * 0x1p-24f);
  const uint32_t use_small = 0u - (exponent == 0);
  return std::bit_cast<float>(sign | (small & use_small) | ((wide << 23 | mantissa << 13) & ~use_small));
}

/// 2^(e - 128), the scale of MXFP4 for whole-numbered codes; exact, subnormal for e = 0 and 1.
inline float half_e8m0_to_f32(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

/// The magnitude of an e4m3 number (sign and all above are ignored); 480 where it is NaN (127). The bits are those of a
/// float but for the width and the offset of the exponent. Subnormals are (8 + mantissa) / 2^10 at first; no step has a
/// subnormal float, which takes processors many times as long. Without branches, like f16_to_f32.
inline float e4m3_magnitude(uint32_t bits) {
  const uint32_t wide = ((bits & 0x7fu) << 20) + (120u << 23);
  const auto small = std::bit_cast<uint32_t>(2.0f * (std::bit_cast<float>(wide) - 0x1p-7f));
  const uint32_t use_small = 0u - ((bits & 0x78u) == 0);
  return std::bit_cast<float>((small & use_small) | (wide & ~use_small));
}

/// e4m3 with a sign and no infinities; magnitude 127 is NaN.
inline float e4m3_to_f32(uint32_t bits) {
  const uint32_t sign = (bits & 0x80u) << 24;
  const uint32_t nan = 0u - ((bits & 0x7fu) == 0x7fu);
  return std::bit_cast<float>(sign | (nan & 0x7fc00000u) | (std::bit_cast<uint32_t>(e4m3_magnitude(bits)) & ~nan));
}

uint16_t f32_to_f16(float f);   ///< to nearest even
uint16_t f32_to_bf16(float f);  ///< to nearest even; NaN stays NaN

/// Expands `n` elements of `dtype` at `src` into dst[0..n). REQUIRES: info(dtype).readable, n a multiple of the block
/// size.
void convert_to_f32(DType dtype, const std::byte* src, int64_t n, float* dst);

}  // namespace colibri
