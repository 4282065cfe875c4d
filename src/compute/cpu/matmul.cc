// Matrix products. Inputs are brought into the form that the kernels read once; then tasks of (panels, rows) are
// multiplied in any order.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"
#include "tensor/unpack.h"

namespace colibri::compute {
namespace {

/// The tasks of one product: all row blocks of some panels follow each other, so that they share the panels' weights.
struct TaskGrid {
  int64_t panels_each, row_blocks, tasks;

  TaskGrid(const Product& p, int threads) {
    panels_each = panels_per_task(*p.w, threads);
    row_blocks = ceil_div(p.y.rows, kRowBlock);
    tasks = ceil_div(p.w->panels(), panels_each) * row_blocks;
  }
};

}  // namespace

/// Every row's strips, one row after the other, in scratch_.strips.
void CpuBackend::quantise_rows(Rows x) {
  const int64_t each = Scratch::strips_of(x.width);
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.quantise(x.row(r), x.width, scratch_.strips + r * each); });
}

CpuBackend::InputRows CpuBackend::input_rows(Rows x, bool floats, bool strips) {
  const int64_t each = Scratch::strips_of(x.width);
  for (int64_t r = 0; r < x.rows; ++r) {
    scratch_.float_rows[r] = x.row(r);
    scratch_.strip_rows[r] = scratch_.strips + r * each;
  }
  if (strips) quantise_rows(x);
  return {floats ? scratch_.float_rows : nullptr, strips ? scratch_.strip_rows : nullptr, x.rows};
}

void CpuBackend::multiply(Rows x, std::span<const Product> products) {
  COLIBRI_CHECK(x.rows <= limits_.max_rows && x.width <= Scratch::widest_input(limits_));
  bool floats = false, strips = false;
  int64_t tasks = 0;
  for (const Product& p : products) {
    COLIBRI_CHECK(x.width == p.w->k && p.y.width == p.w->n && p.y.rows == x.rows);
    (takes_strips(*p.w) ? strips : floats) = true;
    tasks += TaskGrid(p, threads()).tasks;
  }
  if (x.rows == 0) return;
  const InputRows rows = input_rows(x, floats, strips);
  pool_->run(tasks, [&](int64_t task, int thread) {
    const Product* p = products.data();
    for (int64_t n; task >= (n = TaskGrid(*p, threads()).tasks); ++p) task -= n;
    const TaskGrid grid(*p, threads());
    const int64_t panel = task / grid.row_blocks * grid.panels_each, column = panel * kPanelWidth;
    const int64_t first = task % grid.row_blocks * kRowBlock, n = std::min(kRowBlock, x.rows - first);
    multiply_panels(rows.slice(first, n), *p->w, panel, std::min(grid.panels_each, p->w->panels() - panel),
                    p->bias != nullptr ? p->bias + column : nullptr, {p->y.row(first) + column, p->y.width}, thread);
  });
}

/// Outputs of panels [panel, panel + panels) for at most kRowBlock rows; `bias` and `out` begin at the first of them.
void CpuBackend::multiply_panels(const InputRows& x, const PackedMatrix& w, int64_t panel, int64_t panels,
                                 const float* bias, OutputTile out, int thread) {
  if (takes_strips(w)) {
    multiply_strips(x, w, panel, panels, bias, out, thread);
  } else {
    multiply_floats(x, w, panel, panels, bias, out, thread);
  }
}

void CpuBackend::multiply_strips(const InputRows& x, const PackedMatrix& w, int64_t panel, int64_t panels,
                                 const float* bias, OutputTile out, int thread) {
  ProductJob job;
  job.x = x.strips;
  job.rows = x.rows;
  job.k = w.k;
  job.panel_stride = panel_bytes(w.encoding, w.k);
  job.panels = w.data + panel * job.panel_stride;
  job.n = std::min(w.n - panel * kPanelWidth, panels * kPanelWidth);
  job.bias = bias;
  job.c = out.c;
  job.c_stride = out.stride;
  job.sums = of_thread(scratch_.sums, Scratch::kSumFloats, thread);
  job.tiles = scratch_.matrix + thread;
  if (is_blocks(w.encoding)) {
    job.expand = strip_expander(w.encoding);
    job.strip_stride = strip_bytes(w.encoding, kStripInputs);
  }
  kernels_.product[product_index(w.encoding)](&job);
}

void CpuBackend::multiply_floats(const InputRows& x, const PackedMatrix& w, int64_t panel, int64_t panels,
                                 const float* bias, OutputTile out, int thread) {
  TileJob job;
  job.k = w.k;
  job.n = std::min(w.n - panel * kPanelWidth, panels * kPanelWidth);
  job.bias = bias;
  job.c_stride = out.stride;
  float* packed = of_thread(scratch_.packed, Scratch::packed_floats(limits_), thread);
  const RowTiles tiles{x.rows, kernels_.max_tile_rows};
  for (int64_t t = 0; t < tiles.count(); ++t) {
    job.rows = tiles.size(t);
    job.a = job.rows == 1 ? x.floats[tiles.first(t)] : packed;
    if (job.rows > 1) kernels_.pack_tile(x.floats + tiles.first(t), job.rows, w.k, packed);
    job.c = out.c + tiles.first(t) * out.stride;
    if (is_quantised(w.encoding)) {
      multiply_expanded(job, w, panel, thread);
      continue;
    }
    job.panel_stride = panel_bytes(w.encoding, w.k);
    job.panels = w.data + panel * job.panel_stride;
    kernels_.tile[static_cast<int>(w.encoding)](&job);
  }
}

/// A quantised matrix as floats, one strip of one panel after the other; the chains of sums go on from strip to strip.
void CpuBackend::multiply_expanded(TileJob job, const PackedMatrix& w, int64_t panel, int thread) {
  const TileJob whole = job;
  float* expanded = of_thread(scratch_.expanded, Scratch::kExpandedFloats, thread);
  job.panels = expanded;
  for (int64_t column = 0; column < whole.n; column += kPanelWidth, ++panel) {
    job.n = std::min<int64_t>(kPanelWidth, whole.n - column);
    job.c = whole.c + column;
    for (int64_t first = 0; first < w.k; first += kStripInputs) {
      unpack_strip(w, panel, first / kStripInputs, expanded);
      job.a = whole.a + first * whole.rows;
      job.k = std::min<int64_t>(kStripInputs, w.k - first);
      job.accumulate = first > 0;
      job.bias = whole.bias != nullptr && first + job.k == w.k ? whole.bias + column : nullptr;
      kernels_.tile[static_cast<int>(Encoding::kF32)](&job);
    }
  }
}

}  // namespace colibri::compute
