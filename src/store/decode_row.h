// File rows to floats: what every quantised type of a safetensors file means, one row at a time.
//
// The scalar truth that packing into any encoding is tested against. Products are single float operations in the order
// of the published reference. Called by pack_piece. Pure: no state, any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/matrix_source.h"

namespace colibri::store {

/// Where the rows of the parts that serve one file row begin; nullptr for parts that are not there.
struct RowParts {
  const std::byte* own = nullptr;
  const std::byte* scales = nullptr;
  const std::byte* zeros = nullptr;
  const std::byte* group_index = nullptr;
  const std::byte* global = nullptr;
};

/// The numbers of file row `row`: out[0 .. source.width()). REQUIRES: indices in group_index were checked.
void decode_row(const MatrixSource& source, int64_t row, const RowParts& parts, float* out);

/// How one number of such a tensor reads: F32, F16, BF16, F8_E4M3, and F8_E8M0 or U8 as exponents.
float scale_value(DType dtype, const std::byte* data, int64_t i);

/// The values of the sixteen E2M1 codes.
constexpr float kFp4Values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// F8_E4M3 (no infinity; 0x7f and 0xff are NaN), exact.
float f8_e4m3_to_f32(uint8_t code);

}  // namespace colibri::store
