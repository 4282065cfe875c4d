// Packed weights: the encodings the kernels read.
//
// A weight matrix W [n, k] (n outputs, k inputs) is kept in panels of 16 outputs, k-major inside a panel, so that a
// kernel reads, for each input in ascending order, the weights of 16 outputs side by side. Many file types, few
// encodings:
//
//   encoding  one panel of 16 outputs                                         bytes per panel
//   kF32      float     [k][16]                                               64 k
//   kF16      IEEE half [k][16]                                               32 k
//   kBF16     bfloat16  [k][16]                                               32 k
//   kQ8_0     per 32 inputs: half scales[16], int8 q[32][16]; w = scale * q   17 k
//
// Outputs beyond n in the last panel are zero. Transcoding from the file type of the same name loses nothing.
// The caller owns the bytes and keeps them 64-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace colibri {

enum class Encoding : uint8_t { kF32, kF16, kBF16, kQ8_0 };
constexpr int kPanelWidth = 16;

std::string_view name(Encoding encoding);
/// The encoding that holds `dtype` without loss, if there is one yet.
std::optional<Encoding> encoding_for(DType dtype);

struct PackedMatrix {
  Encoding encoding = Encoding::kF32;
  int64_t n = 0;  ///< outputs (rows of W)
  int64_t k = 0;  ///< inputs
  const std::byte* data = nullptr;

  int64_t panels() const { return (n + kPanelWidth - 1) / kPanelWidth; }
};

/// One gated MLP (an expert, a shared expert, a dense feed-forward): down(act(gate x) * up x).
struct ExpertWeights {
  PackedMatrix gate, up;  ///< [width, hidden]
  PackedMatrix down;      ///< [hidden, width]
};

/// Bytes of one panel. REQUIRES for kQ8_0: k % 32 == 0.
int64_t panel_bytes(Encoding encoding, int64_t k);
/// Bytes of a whole matrix.
int64_t packed_bytes(Encoding encoding, int64_t n, int64_t k);

/// Packs rows [first, first + count) of a matrix with k inputs, given row-major in the file type `dtype`, into `dst`,
/// the start of the packed matrix. The padding of the last panel is written too when the last row comes. REQUIRES:
/// encoding_for(dtype) is set, first % 16 == 0, and count % 16 == 0 unless first + count == n.
void pack_rows(DType dtype, const std::byte* src, int64_t first, int64_t count, int64_t n, int64_t k, std::byte* dst);

/// Expands row `row` into out[0..k).
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

}  // namespace colibri
