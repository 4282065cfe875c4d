// How the work of a matrix product is cut: rows into blocks and tiles, panels into tasks. None of it changes a result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compute/cpu/kernels/kernel_table.h"
#include "tensor/packed.h"

namespace colibri::compute {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows that a task takes at once: enough to pay for unpacking weights, few enough that their activations and outputs
/// stay in a core's second-level cache.
constexpr int64_t kRowBlock = 128;
/// Panels of one task of the experts: the outputs of one strip of the next matrix.
constexpr int64_t kTilePanels = kStripInputs / kPanelWidth;

/// Where KernelTable has the product of an encoding: those with kernels of their own in the order of the encodings,
/// then one for all that are kept as blocks.
constexpr int product_index(Encoding encoding) {
  const auto number = [](Encoding e) { return static_cast<int>(e); };
  if (is_blocks(encoding)) return kProducts - 1;
  const int blocks_before = encoding < Encoding::kCodes4 ? 0 : number(Encoding::kCodes4) - number(Encoding::kIQ1_S);
  return number(encoding) - number(Encoding::kQ8_0) - blocks_before;
}
static_assert(product_index(Encoding::kCodes8) == kProducts - 2);

/// `rows` cut into as few tiles of at most `most` rows as possible, all nearly equal.
struct RowTiles {
  int64_t rows = 0;
  int64_t most = 1;

  int64_t count() const { return ceil_div(rows, most); }
  int64_t first(int64_t tile) const { return rows * tile / count(); }
  int64_t size(int64_t tile) const { return first(tile + 1) - first(tile); }
};

constexpr int64_t kMaxPanelsPerTask = 32;

/// Panels that one task multiplies: few enough that their weights stay in a core's second-level cache while the rows
/// pass over them, and that there are tasks for every thread.
inline int64_t panels_per_task(const PackedMatrix& w, int threads) {
  constexpr int64_t kCacheBytes = 512 * 1024;
  const int64_t cached = kCacheBytes / std::max<int64_t>(1, panel_bytes(w.encoding, w.k));
  const int64_t shared = ceil_div(w.panels(), 4 * int64_t{threads});
  const int64_t panels = std::clamp<int64_t>(std::min(cached, shared), 1, kMaxPanelsPerTask);
  return panels >= 8 ? panels / 8 * 8 : panels >= 4 ? 4 : panels;
}

}  // namespace colibri::compute
