// MatrixSource: where a weight matrix lies in the model's files, and how it gets into a packed encoding.
//
// One definition for everything that is read: dense weights at load, experts at load or when they are wanted. A matrix
// is brought in by pieces that are read together and packed together, as many or few as staging memory holds.
//
// A tensor is seen as file rows of `file_width` numbers. Straight: row i of the canonical matrix is file row R(i), and
// its inputs are the columns from `first_input` on. Transposed: row i is column R(i), and its inputs are the file rows
// from `first_input` on. R(i) = first_row + (i / block) * stride + i % block, after interleaved heads were put back.
// Thread-safety: free functions and plain values; pieces may be packed by several threads at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "formats/catalog.h"
#include "tensor/packed.h"

namespace colibri::store {

/// How numbers are made from the bytes of a file row.
enum class Decoding : uint8_t {
  kType,  ///< as the tensor's own type says
  kFp8,   ///< E4M3 code * scale
  kFp4,   ///< two E2M1 codes per byte, the low nibble first; code * scale
  kInt,   ///< codes of `bits` bits, the low bits first; (code - zero) * scale
  kGptq,  ///< file rows are inputs, 32 / bits of them in a row of words; (code - zero) * scale
  kAwq,   ///< file rows are inputs, eight columns in a word, in the order 0, 2, 4, 6, 1, 3, 5, 7; (code - zero) * scale
};

/// A tensor that numbers are made from: each of its rows serves `rows_each` file rows; 0: all of it serves every one.
struct Part {
  const formats::TensorInfo* tensor = nullptr;
  int64_t rows_each = 1;
  int64_t row_bytes = 0;
};

/// What makes numbers out of codes; nothing of it for Decoding::kType.
struct Codes {
  Decoding decoding = Decoding::kType;
  uint8_t bits = 0;
  bool zero_plus_one = false;     ///< zeros are kept less one
  bool divide_by_global = false;  ///< scale / global instead of scale * global
  bool act_order = false;         ///< group_index, not the order of the inputs, says which group an input is of
  int64_t group = 0;              ///< inputs that share a scale
  int64_t groups = 0;
  int64_t rows_each = 1;  ///< of the tensor of codes, as in Part
  int64_t row_bytes = 0;
  Part scales, zeros, group_index, global;
};

struct MatrixSource {
  const formats::TensorInfo* tensor = nullptr;
  int64_t first_row = 0;
  int64_t n = 0;  ///< 0: there is no such matrix
  int64_t k = 0;
  /// kF32 (for anything that can be read), or one that holds the file's numbers without loss.
  Encoding encoding = Encoding::kF32;
  /// > 0: the rows of each of this many heads are interleaved (0, d/2, 1, d/2 + 1, ...) and are put back into halves.
  int interleaved_heads = 0;
  int64_t block = 0;   ///< rows that lie together; 0: all
  int64_t stride = 0;  ///< from the first row of a block to that of the next
  bool transposed = false;
  int64_t file_width = 0;  ///< 0: k
  int64_t first_input = 0;
  Codes codes = {};

  int64_t packed_size() const { return packed_bytes(encoding, n, k); }
  int64_t width() const { return file_width > 0 ? file_width : k; }
  /// The tensor itself as a part.
  Part own() const;
  /// Of all parts, without what other matrices have between the rows of this one.
  int64_t file_size() const;
  /// What pieces are cut along: rows (straight) or inputs (transposed).
  int64_t length() const { return transposed ? k : n; }
  /// R(i).
  int64_t file_row(int64_t row) const;
};

/// The encoding that holds the source without loss in the least memory; kF32 where there is no other.
Encoding best_encoding(const MatrixSource& source);

/// Rows R(0) .. R(n - 1) of `whole`, where R(i) = first + (i / block) * stride + i % block; block 0: in one piece.
/// REQUIRES: `whole` is a whole tensor, as find_matrix gives it.
MatrixSource select_rows(const MatrixSource& whole, int64_t first, int64_t n, int64_t block = 0, int64_t stride = 0);

/// The transpose of a part of `whole`: row i is input R(i), and the inputs are its rows from `first_input` on.
MatrixSource select_transposed(const MatrixSource& whole, int64_t first, int64_t n, int64_t first_input, int64_t k,
                               int64_t block = 0, int64_t stride = 0);

/// An expert's three matrices on disk.
struct ExpertSource {
  MatrixSource gate, up, down;
  /// In memory, or null; they go into ExpertWeights as they are.
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;

  int64_t packed_size() const { return gate.packed_size() + up.packed_size() + down.packed_size(); }
  int64_t file_size() const { return gate.file_size() + up.file_size() + down.file_size(); }
};

/// Bytes [first, first + bytes) of a tensor.
struct Extent {
  const formats::TensorInfo* tensor = nullptr;
  int64_t first = 0, bytes = 0;

  int64_t offset() const { return tensor->offset + first; }  ///< in the tensor's file
};

/// What must be read for a piece: the tensor's own bytes first, then those of the parts that are there.
struct Extents {
  static constexpr int kMax = 5;
  std::array<Extent, kMax> list;
  int count = 0;

  const Extent* begin() const { return list.data(); }
  const Extent* end() const { return list.data() + count; }
  int64_t bytes() const;
};
using RawParts = std::array<std::span<const std::byte>, Extents::kMax>;

/// The smallest ranges that hold rows (or inputs) [first, first + count): with what lies between them.
Extents extents_of(const MatrixSource& source, int64_t first, int64_t count);
/// Where two matrices lie between each other's rows (gate and up, say): ranges that hold the piece of both.
/// REQUIRES: interleaved_with(a, b).
Extents extents_of_both(const MatrixSource& a, const MatrixSource& b, int64_t first, int64_t count);
bool interleaved_with(const MatrixSource& a, const MatrixSource& b);

/// Staging memory that one thread needs for a set of matrices.
struct StagingNeed {
  int64_t read_bytes = 0;     ///< the tensors' own bytes
  int64_t side_bytes = 0;     ///< scales and the like
  int64_t scratch_bytes = 0;  ///< rows between reading and packing

  void cover(const MatrixSource& source);
  int64_t bytes() const { return read_bytes + side_bytes + scratch_bytes; }
};

/// The least read_bytes with which pieces of the source can be cut.
int64_t least_read_bytes(const MatrixSource& source);
/// side_bytes and scratch_bytes that suffice for any piece of the source.
int64_t side_bytes(const MatrixSource& source);
int64_t scratch_bytes(const MatrixSource& source);

/// Rows (or inputs) of a piece whose own bytes, also of extents_of_both, are at most `read_bytes`. Pieces begin at its
/// multiples. REQUIRES: read_bytes >= least_read_bytes(source).
int64_t piece_length(const MatrixSource& source, int64_t read_bytes);

/// Packs the piece [first, first + count) into the matrix at dst. `extents`: those of the piece, or larger ones, and
/// their bytes in `raw`. kInvalidModel when an index in the file leads nowhere. REQUIRES: the piece is as piece_length
/// cuts it; scratch_bytes(source) of scratch.
Status pack_piece(const MatrixSource& source, int64_t first, int64_t count, const Extents& extents, const RawParts& raw,
                  std::span<std::byte> scratch, std::byte* dst);

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
