// Several residual streams.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {

void CpuBackend::stream_weights(Rows weights, const StreamParams& params) {
  const int64_t n = params.n;
  COLIBRI_CHECK(n >= 1 && n <= kMaxStreams && (weights.width == n || weights.width == (2 + n) * n));
  constexpr int64_t kElements = 4096;  // a row costs as much as so many elements
  for_each_row(weights.rows, kElements,
               [&](int64_t r) { kernels_.stream_weights(params, weights.width > n, weights.row(r)); });
}

void CpuBackend::collapse_streams(Rows x, Rows weights, Rows out) {
  COLIBRI_CHECK(x.rows == out.rows && weights.rows == out.rows && out.width > 0 && x.width % out.width == 0);
  const int64_t streams = x.width / out.width;
  COLIBRI_CHECK(streams <= weights.width);
  for_each_row(x.rows, x.width,
               [&](int64_t r) { kernels_.collapse_streams(x.row(r), weights.row(r), streams, out.width, out.row(r)); });
}

void CpuBackend::expand_streams(Rows x, Rows weights, Rows y) {
  COLIBRI_CHECK(x.rows == y.rows && weights.rows == y.rows && y.width > 0 && x.width % y.width == 0);
  const int64_t streams = x.width / y.width;
  COLIBRI_CHECK(streams <= kMaxStreams && weights.width == (2 + streams) * streams);
  for_each_row(x.rows, x.width,
               [&](int64_t r) { kernels_.expand_streams(x.row(r), weights.row(r), y.row(r), streams, y.width); });
}

}  // namespace colibri::compute
