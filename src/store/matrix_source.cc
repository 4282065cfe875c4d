#include "store/matrix_source.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace colibri::store {
namespace {

constexpr int64_t kPreferredRead = 4 << 20;  // bytes per read: large enough that the disk's latency does not show

int64_t panel_file_bytes(const MatrixSource& source) { return source.row_bytes() * kPanelWidth; }

// Pieces begin at multiples of this many rows.
int64_t piece_step(const MatrixSource& source) {
  if (source.interleaved_heads == 0) return kPanelWidth;
  return std::lcm(int64_t{kPanelWidth}, source.n / source.interleaved_heads);
}

// Panel by panel, so that one panel of reordered rows is all that is needed.
void pack_interleaved(const MatrixSource& source, int64_t row, int64_t count, std::span<const std::byte> raw,
                      std::span<std::byte> reorder, std::byte* dst) {
  const int64_t stride = source.row_bytes();
  const int64_t head_dim = source.n / source.interleaved_heads;
  for (int64_t first = row; first < row + count; first += kPanelWidth) {
    const int64_t n = std::min<int64_t>(kPanelWidth, row + count - first);
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(reorder.data() + i * stride, raw.data() + (interleaved_row(first + i, head_dim) - row) * stride,
                  static_cast<size_t>(stride));
    pack_rows(source.tensor->dtype, reorder.data(), first, n, source.n, source.k, dst);
  }
}

}  // namespace

int64_t MatrixSource::row_bytes() const {
  const DTypeInfo& type = info(tensor->dtype);
  return k / type.block_elements * type.block_bytes;
}

void StagingNeed::cover(const MatrixSource& source) {
  const int64_t all = source.file_size();
  const int64_t least = std::min(all, piece_step(source) * source.row_bytes());
  read_bytes = std::max({read_bytes, least, std::min(kPreferredRead, all)});
  if (source.interleaved_heads > 0) reorder_bytes = std::max(reorder_bytes, panel_file_bytes(source));
}

int64_t rows_per_piece(const MatrixSource& source, int64_t read_bytes) {
  const int64_t rows = read_bytes / source.row_bytes();
  if (rows >= source.n) return source.n;
  const int64_t step = piece_step(source);
  COLIBRI_CHECK(rows >= step);
  return rows / step * step;
}

void pack_piece(const MatrixSource& source, int64_t row, int64_t count, std::span<const std::byte> raw,
                std::span<std::byte> reorder, std::byte* dst) {
  if (source.interleaved_heads > 0) return pack_interleaved(source, row, count, raw, reorder, dst);
  pack_rows(source.tensor->dtype, raw.data(), row, count, source.n, source.k, dst);
}

Status load_matrix(const formats::TensorCatalog& catalog, const MatrixSource& source, std::span<std::byte> staging,
                   std::byte* dst) {
  StagingNeed need;
  need.cover(source);
  const auto reorder = staging.last(static_cast<size_t>(need.reorder_bytes));
  const auto read = staging.first(staging.size() - reorder.size());
  const int64_t rows = rows_per_piece(source, static_cast<int64_t>(read.size()));
  for (int64_t row = 0; row < source.n; row += rows) {
    const int64_t count = std::min(rows, source.n - row);
    const auto raw = read.first(static_cast<size_t>(count * source.row_bytes()));
    COLIBRI_TRY(catalog.read(*source.tensor, (source.first_row + row) * source.row_bytes(), raw));
    pack_piece(source, row, count, raw, reorder, dst);
  }
  return {};
}

}  // namespace colibri::store
