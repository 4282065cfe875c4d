// Operations that treat every row by itself.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {

void CpuBackend::embed(const PackedMatrix& table, std::span<const int32_t> ids, Rows out) {
  COLIBRI_CHECK(static_cast<int64_t>(ids.size()) == out.rows && out.width == table.k);
  for_each_row(out.rows, out.width, [&](int64_t r) { unpack_row(table, ids[static_cast<size_t>(r)], out.row(r)); });
}

void CpuBackend::rms_norm(Rows x, const float* weight, float eps, Rows y) {
  COLIBRI_CHECK(x.rows == y.rows && x.width == y.width);
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.rms_norm(x.row(r), weight, eps, x.width, y.row(r)); });
}

void CpuBackend::layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows y) {
  COLIBRI_CHECK(x.rows == y.rows && x.width == y.width);
  for_each_row(x.rows, x.width,
               [&](int64_t r) { kernels_.layer_norm(x.row(r), weight, bias, eps, x.width, y.row(r)); });
}

void CpuBackend::add_scaled(Rows x, float factor, Rows y) {
  COLIBRI_CHECK(x.rows == y.rows && x.width == y.width);
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.add(x.row(r), factor, y.row(r), x.width); });
}

void CpuBackend::scale(Rows x, float factor) {
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.scale(x.row(r), factor, x.width); });
}

void CpuBackend::multiply_elements(Rows x, Rows y) {
  COLIBRI_CHECK(x.rows == y.rows && x.width == y.width);
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.multiply(x.row(r), y.row(r), x.width); });
}

void CpuBackend::clamp(Rows x, float limit) {
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.clamp(x.row(r), limit, x.width); });
}

void CpuBackend::soft_cap(Rows x, float cap) {
  for_each_row(x.rows, x.width, [&](int64_t r) { kernels_.soft_cap(x.row(r), cap, x.width); });
}

void CpuBackend::activate(Rows gate, Rows up, const Activation& activation, Rows out) {
  const bool gated = is_gated(activation);
  COLIBRI_CHECK(out.rows == gate.rows && out.width == gate.width);
  COLIBRI_CHECK(!gated || (gate.rows == up.rows && gate.width == up.width));
  for_each_row(gate.rows, gate.width, [&](int64_t r) {
    kernels_.activate(activation, gate.row(r), gated ? up.row(r) : nullptr, gate.width, out.row(r));
  });
}

void CpuBackend::scale_by_sigmoid(Rows x, Rows gate) {
  COLIBRI_CHECK(gate.rows == x.rows && gate.width > 0 && x.width % gate.width == 0);
  for_each_row(x.rows, x.width,
               [&](int64_t r) { kernels_.scale_by_sigmoid(x.row(r), gate.row(r), gate.width, x.width / gate.width); });
}

void CpuBackend::join_heads(Rows a, Rows b, int heads, Rows out) {
  COLIBRI_CHECK(a.rows == out.rows && b.rows == out.rows && a.width + b.width == out.width);
  COLIBRI_CHECK(a.width % heads == 0 && b.width % heads == 0);
  const int64_t n = a.width / heads, m = b.width / heads;
  for_each_row(out.rows, out.width, [&](int64_t r) {
    float* to = out.row(r);
    for (int64_t h = 0; h < heads; ++h, to += n + m) {
      std::copy_n(a.row(r) + h * n, n, to);
      std::copy_n(b.row(r) + h * m, m, to + n);
    }
  });
}

void CpuBackend::rope(Rows x, int head_dim, std::span<const int32_t> positions, const RopeTable& table) {
  COLIBRI_CHECK(static_cast<int64_t>(positions.size()) == x.rows && x.width % head_dim == 0);
  COLIBRI_CHECK(table.rotary_dim % 2 == 0 && table.first >= 0 && table.first + table.rotary_dim <= head_dim);
  const int64_t half = table.rotary_dim / 2;
  for_each_row(x.rows, x.width, [&](int64_t r) {
    const int64_t angles = positions[static_cast<size_t>(r)] * half;
    const RopeJob job{x.row(r) + table.first, x.width / head_dim, head_dim,
                      table.cos + angles,     table.sin + angles, half,
                      table.interleaved,      table.inverse};
    kernels_.rope(&job);
  });
}

}  // namespace colibri::compute
