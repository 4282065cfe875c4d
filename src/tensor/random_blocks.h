// Test only: matrices of random bytes in any file type that can be packed, and the same matrix packed.
//
// Every code and scale of a type occurs; half scales are finite, because the sign of a NaN that arithmetic makes is not
// specified. Used by the tests of src/tensor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <vector>

#include "tensor/block_scales.h"
#include "tensor/convert.h"
#include "tensor/packed.h"

namespace colibri {

/// The file types that can be packed, in the order of their encodings, which are the first ones.
// clang-format off
constexpr DType kFileTypes[] = {
    DType::kF32,     DType::kF16,    DType::kBF16,   DType::kQ8_0,   DType::kQ4_0,  DType::kQ4_1,    DType::kQ5_0,
    DType::kQ5_1,    DType::kMXFP4,  DType::kQ4_K,   DType::kQ5_K,   DType::kQ6_K,  DType::kIQ4_NL,  DType::kIQ4_XS,
    DType::kQ2_K,    DType::kQ3_K,   DType::kIQ1_S,  DType::kIQ1_M,  DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,
    DType::kIQ3_XXS, DType::kIQ3_S,  DType::kTQ1_0,  DType::kTQ2_0,  DType::kNVFP4, DType::kQ1_0};
// clang-format on
static_assert(std::size(kFileTypes) == static_cast<size_t>(Encoding::kCodes4));

struct BlockMatrix {
  DType dtype;
  int64_t n, k;
  std::vector<std::byte> bytes;  // row-major, as in a file

  int64_t row_bytes() const { return k / info(dtype).block_elements * info(dtype).block_bytes; }
  std::vector<float> row(int64_t r) const {
    std::vector<float> out(static_cast<size_t>(k));
    convert_to_f32(dtype, bytes.data() + r * row_bytes(), k, out.data());
    return out;
  }
};

inline BlockMatrix random_blocks(DType dtype, int64_t n, int64_t k) {
  BlockMatrix m{dtype, n, k, {}};
  m.bytes.resize(static_cast<size_t>(n * m.row_bytes()));
  std::mt19937 random(static_cast<unsigned>(7 + n + k));
  for (std::byte& b : m.bytes) b = static_cast<std::byte>(random());
  const auto block = static_cast<size_t>(info(dtype).block_bytes);
  for (const int64_t half : half_offsets(dtype))
    for (size_t at = static_cast<size_t>(half) + 1; at < m.bytes.size(); at += block) m.bytes[at] &= std::byte{0xbf};
  for (size_t at = 55; dtype == DType::kIQ1_M && at < m.bytes.size(); at += block) m.bytes[at] &= std::byte{0xbf};
  return m;
}

/// Packs `rows_at_once` rows at a time over bytes that were `before`.
inline std::vector<std::byte> pack(const BlockMatrix& m, int64_t rows_at_once, std::byte before = std::byte{0xee}) {
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(*encoding_for(m.dtype), m.n, m.k)), before);
  for (int64_t first = 0; first < m.n; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, m.n - first);
    pack_rows(m.dtype, m.bytes.data() + first * m.row_bytes(), first, count, m.n, m.k, packed.data());
  }
  return packed;
}

/// Numbers of inputs that make one short strip, whole strips only, and whole strips with a short last one.
inline std::vector<int64_t> interesting_widths(DType dtype) {
  switch (info(dtype).block_elements) {
    case 1:
      return {1, 37, 256, 300};
    case 32:
      return {32, 96, 256, 2880};
    case 64:
    case 128:
      return {128, 256, 640};
    default:
      return {256, 768};
  }
}

}  // namespace colibri
