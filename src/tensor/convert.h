// File types to float: exact, one row at a time. The scalar truth that every packed encoding is tested against.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace colibri {

inline float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }
float f16_to_f32(uint16_t h);   ///< exact, subnormals included
uint16_t f32_to_f16(float f);   ///< to nearest even
uint16_t f32_to_bf16(float f);  ///< to nearest even; NaN stays NaN

/// Expands `n` elements of `dtype` at `src` into dst[0..n). REQUIRES: info(dtype).readable, n a multiple of the block
/// size.
void convert_to_f32(DType dtype, const std::byte* src, int64_t n, float* dst);

}  // namespace colibri
