// Matrix products. Rows are packed into tiles once, then tasks of (row tiles, panels) are multiplied in any order.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

/// The grid of tasks: panels first; rows are split too only when the panels alone give too few tasks.
struct TaskGrid {
  int64_t panels_each, panel_tasks, tiles_each, tile_tasks;

  TaskGrid(const PackedMatrix& w, int64_t tiles, int threads) {
    panels_each = panels_per_task(w, 1, threads);
    panel_tasks = ceil_div(w.panels(), panels_each);
    const int64_t wanted = ceil_div(2 * threads, panel_tasks);
    tiles_each = ceil_div(tiles, std::min(tiles, wanted));
    tile_tasks = ceil_div(tiles, tiles_each);
  }
  int64_t tasks() const { return panel_tasks * tile_tasks; }
};

}  // namespace

const float* CpuBackend::pack_rows(Rows x) {
  if (x.rows == 1) return x.data;
  const RowTiles tiles{x.rows, kernels_.max_tile_rows};
  for_each_row(tiles.count(), tiles.most * x.width, [&](int64_t t) {
    const float* rows[kMaxTileRows];
    for (int64_t r = 0; r < tiles.size(t); ++r) rows[r] = x.row(tiles.first(t) + r);
    pack_tile(rows, tiles.size(t), x.width, scratch_.activations + tiles.first(t) * x.width);
  });
  return scratch_.activations;
}

void CpuBackend::matmul(Rows x, const PackedMatrix& w, const float* bias, Rows y) {
  COLIBRI_CHECK(x.width == w.k && y.width == w.n && y.rows == x.rows);
  COLIBRI_CHECK(x.rows <= limits_.max_rows && x.width <= limits_.max_inputs);
  if (x.rows == 0 || w.n == 0) return;
  const float* packed = pack_rows(x);
  const RowTiles tiles{x.rows, kernels_.max_tile_rows};
  const TaskGrid grid(w, tiles.count(), threads());
  const int64_t stride = panel_bytes(w.encoding, w.k);
  const auto kernel = kernels_.tile[static_cast<int>(w.encoding)];
  pool_->run(grid.tasks(), [&](int64_t task, int) {
    const int64_t panel = task % grid.panel_tasks * grid.panels_each, column = panel * kPanelWidth;
    TileJob job;
    job.k = w.k;
    job.panels = w.data + panel * stride;
    job.panel_stride = stride;
    job.n = std::min(w.n - column, grid.panels_each * kPanelWidth);
    job.bias = bias != nullptr ? bias + column : nullptr;
    job.c_stride = y.width;
    const int64_t first = task / grid.panel_tasks * grid.tiles_each;
    for (int64_t t = first; t < std::min(tiles.count(), first + grid.tiles_each); ++t) {
      job.a = packed + tiles.first(t) * w.k;
      job.rows = tiles.size(t);
      job.c = y.row(tiles.first(t)) + column;
      kernel(&job);
    }
  });
}

}  // namespace colibri::compute
