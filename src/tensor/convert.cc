#include "tensor/convert.h"

#include <cstring>

#include "base/check.h"

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

// Block: half scale, int8 q[32].
void q8_0_row(const std::byte* src, int64_t n, float* dst) {
  for (int64_t first = 0; first < n; first += 32, src += 34) {
    const float scale = f16_to_f32(load<uint16_t>(src));
    for (int i = 0; i < 32; ++i) dst[first + i] = scale * static_cast<float>(load<int8_t>(src + 2 + i));
  }
}

}  // namespace

float f16_to_f32(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;  // 112 = 127 - 15
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

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
      q8_0_row(src, n, dst);
      return;
    default:
      check_failed("convert_to_f32: dtype is readable", __FILE__, __LINE__);
  }
}

}  // namespace colibri
