#include "store/matrix_source.h"

#include <algorithm>
#include <cstring>

namespace colibri::store {
namespace {

constexpr int64_t kPreferredRead = 4 << 20;  // bytes per read: large enough that the disk's latency does not show

int64_t row_bytes(const MatrixSource& source) {
  const DTypeInfo& type = info(source.tensor->dtype);
  return source.k / type.block_elements * type.block_bytes;
}

Status load_in_order(const formats::TensorCatalog& catalog, const MatrixSource& source, std::span<std::byte> staging,
                     std::byte* dst) {
  const int64_t stride = row_bytes(source);
  const int64_t fit = static_cast<int64_t>(staging.size()) / stride / kPanelWidth * kPanelWidth;
  for (int64_t row = 0; row < source.n;) {
    const int64_t count = std::min(fit, source.n - row);
    const auto bytes = staging.first(static_cast<size_t>(count * stride));
    COLIBRI_TRY(catalog.read(*source.tensor, (source.first_row + row) * stride, bytes));
    pack_rows(source.tensor->dtype, bytes.data(), row, count, source.n, source.k, dst);
    row += count;
  }
  return {};
}

// The whole matrix is read into the first half of the staging memory and reordered into the second.
Status load_interleaved(const formats::TensorCatalog& catalog, const MatrixSource& source, std::span<std::byte> staging,
                        std::byte* dst) {
  const int64_t stride = row_bytes(source);
  const auto total = static_cast<size_t>(source.n * stride);
  const auto raw = staging.first(total);
  const auto ordered = staging.subspan(total, total);
  COLIBRI_TRY(catalog.read(*source.tensor, source.first_row * stride, raw));
  const int64_t head_dim = source.n / source.interleaved_heads;
  for (int64_t row = 0; row < source.n; ++row)
    std::memcpy(ordered.data() + row * stride, raw.data() + interleaved_row(row, head_dim) * stride,
                static_cast<size_t>(stride));
  pack_rows(source.tensor->dtype, ordered.data(), 0, source.n, source.n, source.k, dst);
  return {};
}

}  // namespace

int64_t MatrixSource::file_size() const { return n * row_bytes(*this); }

int64_t staging_bytes(const MatrixSource& source) {
  if (source.interleaved_heads > 0) return 2 * source.file_size();
  const int64_t panel = row_bytes(source) * kPanelWidth;
  return std::max(panel, std::min(kPreferredRead, (source.n + kPanelWidth - 1) / kPanelWidth * panel));
}

Status load_matrix(const formats::TensorCatalog& catalog, const MatrixSource& source, std::span<std::byte> staging,
                   std::byte* dst) {
  auto status = source.interleaved_heads > 0 ? load_interleaved(catalog, source, staging, dst)
                                             : load_in_order(catalog, source, staging, dst);
  return std::move(status).with_context("tensor " + source.tensor->name);
}

}  // namespace colibri::store
