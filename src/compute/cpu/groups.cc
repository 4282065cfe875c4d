// Block-diagonal products. Every task brings its rows of one group into the form that the kernels read: a group's
// inputs are few and used by its own matrix alone, so doing it again for each part of the outputs costs next to
// nothing, and no scratch memory grows with the number of groups.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {

void CpuBackend::multiply_groups(Rows x, std::span<const PackedMatrix> w, Rows y) {
  COLIBRI_CHECK(!w.empty() && x.rows == y.rows && x.rows <= limits_.max_rows);
  const PackedMatrix& shape = w.front();
  const auto groups = static_cast<int64_t>(w.size());
  COLIBRI_CHECK(x.width == groups * shape.k && y.width == groups * shape.n && shape.k <= limits_.max_group_inputs);
  for (const PackedMatrix& m : w) COLIBRI_CHECK(m.n == shape.n && m.k == shape.k);
  const int64_t blocks = ceil_div(x.rows, kRowBlock);
  const int64_t threads_each = ceil_div(threads(), groups * std::max<int64_t>(1, blocks));
  const int64_t panels_each = panels_per_task(shape, static_cast<int>(threads_each));
  const int64_t parts = ceil_div(shape.panels(), panels_each);
  pool_->run(groups * parts * blocks, [&](int64_t task, int thread) {
    const int64_t group = task / (parts * blocks), panel = task / blocks % parts * panels_each;
    const int64_t first = task % blocks * kRowBlock, n = std::min(kRowBlock, x.rows - first);
    const PackedMatrix& matrix = w[static_cast<size_t>(group)];
    const InputRows rows = group_inputs(x.slice(first, n), matrix, group * matrix.k, thread);
    float* out = y.row(first) + group * matrix.n + panel * kPanelWidth;
    multiply_panels(rows, matrix, panel, std::min(panels_each, matrix.panels() - panel), nullptr, {out, y.width},
                    thread);
  });
}

/// Columns [first_column, first_column + w.k) of a block of rows as w wants them.
CpuBackend::InputRows CpuBackend::group_inputs(Rows x, const PackedMatrix& w, int64_t first_column, int thread) {
  const int64_t most = Scratch::group_rows(limits_), each = Scratch::strips_of(w.k);
  const float** floats = of_thread(scratch_.group_float_rows, most, thread);
  for (int64_t r = 0; r < x.rows; ++r) floats[r] = x.row(r) + first_column;
  if (!takes_strips(w)) return {floats, nullptr, x.rows};
  const ActivationStrip** rows = of_thread(scratch_.group_strip_rows, most, thread);
  ActivationStrip* strips =
      of_thread(scratch_.group_strips, most * Scratch::strips_of(limits_.max_group_inputs), thread);
  for (int64_t r = 0; r < x.rows; ++r) {
    kernels_.quantise(floats[r], w.k, strips + r * each);
    rows[r] = strips + r * each;
  }
  return {nullptr, rows, x.rows};
}

}  // namespace colibri::compute
