// FileRows: where the rows of a tensor, and what belongs to them in its other parts, are in the bytes that were read.
//
// Private to src/store: packing and checking go through it. Borrows the source and the bytes. Pure.
#pragma once

#include "store/decode_row.h"
#include "store/matrix_source.h"

namespace colibri::store {

/// The bytes of a piece: where file rows are in them.
class FileRows {
 public:
  FileRows(const MatrixSource& source, const Extents& extents, const RawParts& raw) : source_(source) {
    place(source.own(), extents, raw, own_);
    if (source.codes.decoding == Decoding::kType) return;
    place(source.codes.scales, extents, raw, scales_);
    place(source.codes.zeros, extents, raw, zeros_);
    place(source.codes.group_index, extents, raw, group_index_);
    place(source.codes.global, extents, raw, global_);
  }

  const std::byte* own(int64_t row) const { return own_.at(row); }
  const std::byte* scales(int64_t row) const { return scales_.at(row); }
  const std::byte* group_index(int64_t row) const { return group_index_.at(row); }
  RowParts parts(int64_t row) const {
    return {own_.at(row), scales_.at(row), zeros_.at(row), group_index_.at(row), global_.at(row)};
  }
  void decode(int64_t row, float* out) const { decode_row(source_, row, parts(row), out); }

 private:
  struct Placed {
    const std::byte* data = nullptr;  // of file row 0, were it there
    int64_t rows_each = 0, row_bytes = 0;

    const std::byte* at(int64_t row) const {
      return rows_each == 0 || data == nullptr ? data : data + row / rows_each * row_bytes;
    }
  };

  void place(const Part& part, const Extents& extents, const RawParts& raw, Placed& placed) {
    if (part.tensor == nullptr) return;
    placed.data = raw[next_].data() - extents.list[next_].first;
    placed.rows_each = part.rows_each;
    placed.row_bytes = part.row_bytes;
    ++next_;
  }

  const MatrixSource& source_;
  Placed own_, scales_, zeros_, group_index_, global_;
  size_t next_ = 0;
};

/// The inputs' groups are there, and in their order, unless the config says that they have another one.
Status check_groups(const MatrixSource& source, int64_t first, int64_t count, const FileRows& rows);

/// Reads the extents one after the other into `memory`, which must hold them. Errors name file and tensor.
Status read_extents(const formats::TensorCatalog& catalog, const Extents& extents, std::span<std::byte> memory,
                    RawParts& raw);

}  // namespace colibri::store
