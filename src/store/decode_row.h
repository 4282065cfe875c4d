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

/// The codes of columns [first, first + count), one a byte: bits of e4m3 (kFp8), else whole numbers from 0 on.
/// REQUIRES: neither kType nor kFp4.
void decode_codes(const MatrixSource& source, int64_t row, const RowParts& parts, int64_t first, int64_t count,
                  uint8_t* out);

/// What code encodings keep for columns first, first + step, ...: the number is scale * code + minimum. The minimum is
/// 0 for kFp8.
void decode_scales(const MatrixSource& source, int64_t row, const RowParts& parts, int64_t first, int64_t step,
                   int64_t count, float* scales, float* minimums);

/// How one number of such a tensor reads: F32, F16, BF16, F8_E4M3, and F8_E8M0 or U8 as exponents.
float scale_value(DType dtype, const std::byte* data, int64_t i);

}  // namespace colibri::store
