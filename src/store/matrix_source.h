// MatrixSource: where a weight matrix lies in the model's files, and how it gets into a packed encoding.
//
// One definition for everything that is read: dense weights at load, experts at load or when they are wanted.
// Thread-safety: load_matrix may run in several threads with different staging buffers and destinations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "formats/catalog.h"
#include "tensor/packed.h"

namespace colibri::store {

/// Rows [first_row, first_row + n) of a tensor seen as [rows, k].
struct MatrixSource {
  const formats::TensorInfo* tensor = nullptr;
  int64_t first_row = 0;
  int64_t n = 0;
  int64_t k = 0;
  Encoding encoding = Encoding::kF32;
  /// > 0: the rows of each of this many heads are interleaved (0, d/2, 1, d/2 + 1, ...) and are put back into halves.
  int interleaved_heads = 0;

  int64_t packed_size() const { return packed_bytes(encoding, n, k); }
  int64_t file_size() const;
};

/// An expert's three matrices on disk.
struct ExpertSource {
  MatrixSource gate, up, down;
  int64_t packed_size() const { return gate.packed_size() + up.packed_size() + down.packed_size(); }
};

/// Bytes of staging memory that load_matrix needs at least for this source.
int64_t staging_bytes(const MatrixSource& source);

/// Reads and packs the matrix into dst (source.packed_size() bytes, 64-byte aligned). Errors name file and tensor.
Status load_matrix(const formats::TensorCatalog& catalog, const MatrixSource& source, std::span<std::byte> staging,
                   std::byte* dst);

/// The row of the file that holds row `row` of the canonical matrix, for a head of `head_dim` interleaved rows.
constexpr int64_t interleaved_row(int64_t row, int64_t head_dim) {
  const int64_t head = row / head_dim;
  const int64_t within = row % head_dim;
  const int64_t half = head_dim / 2;
  return head * head_dim + (within % half) * 2 + within / half;
}

}  // namespace colibri::store
