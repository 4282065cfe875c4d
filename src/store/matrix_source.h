// MatrixSource: where a weight matrix lies in the model's files, and how it gets into a packed encoding.
//
// One definition for everything that is read: dense weights at load, experts at load or when they are wanted. A matrix
// is brought in by pieces: rows that are read together, packed together, and as few or many as staging memory holds.
// Thread-safety: free functions and plain values; pieces may be packed by several threads at once.
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
  int64_t row_bytes() const;  ///< in the file
  int64_t file_size() const { return n * row_bytes(); }
  /// Of row `row`: absolute, in the tensor's file.
  int64_t file_offset(int64_t row) const { return tensor->offset + (first_row + row) * row_bytes(); }
};

/// An expert's three matrices on disk.
struct ExpertSource {
  MatrixSource gate, up, down;
  int64_t packed_size() const { return gate.packed_size() + up.packed_size() + down.packed_size(); }
  int64_t file_size() const { return gate.file_size() + up.file_size() + down.file_size(); }
};

/// Staging memory that one thread needs for a set of matrices: bytes as they are read, and a panel of reordered rows.
struct StagingNeed {
  int64_t read_bytes = 0;
  int64_t reorder_bytes = 0;

  void cover(const MatrixSource& source);
  int64_t bytes() const { return read_bytes + reorder_bytes; }
};

/// Rows of a piece that is read into `read_bytes`: whole panels, and whole heads where they are interleaved.
/// REQUIRES: a StagingNeed with that many read_bytes covers the source.
int64_t rows_per_piece(const MatrixSource& source, int64_t read_bytes);

/// Packs the piece [row, row + count), read into `raw`, into the matrix at dst. `reorder`: a StagingNeed's
/// reorder_bytes. REQUIRES: row and count as rows_per_piece cuts them.
void pack_piece(const MatrixSource& source, int64_t row, int64_t count, std::span<const std::byte> raw,
                std::span<std::byte> reorder, std::byte* dst);

/// Reads and packs the matrix into dst (source.packed_size() bytes, 64-byte aligned). Errors name file and tensor.
/// REQUIRES: a StagingNeed of staging.size() bytes covers the source.
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
