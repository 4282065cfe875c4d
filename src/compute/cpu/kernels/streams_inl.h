// Several residual streams (hyper-connections): Backend::stream_weights, collapse_streams, expand_streams. Over the
// F32x16 included before.
//
// A row has few weights, so their sums are plain loops; exponentials are those of math_inl.h.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

/// logits * scale + base, of up to 16.
COLIBRI_INLINE F32x16 scaled_logits(const float* logits, float scale, const float* base, int64_t n) {
  return add(mul(load_partial(logits, n), broadcast(scale)), load_partial(base, n));
}

void soften_stream_row(float* row, float scale, const float* base, int64_t n, float eps) {
  store_partial(row, n, scaled_logits(row, scale, base, n));
  float largest = row[0], sum = 0;
  for (int64_t k = 1; k < n; ++k) largest = row[k] > largest ? row[k] : largest;
  store_partial(row, n, small_exponential(sub(load_partial(row, n), broadcast(largest))));
  for (int64_t k = 0; k < n; ++k) sum += row[k];
  for (int64_t k = 0; k < n; ++k) row[k] = row[k] / sum + eps;
}

/// Divides n numbers, `step` from one to the next, by their sum.
COLIBRI_INLINE void divide_by_sum(float* x, int64_t step, int64_t n, float eps) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i * step];
  sum += eps;
  for (int64_t i = 0; i < n; ++i) x[i * step] /= sum;
}

void normalise_streams(float* matrix, int64_t n, int64_t iterations, float eps) {
  for (int64_t k = 0; k < n; ++k) divide_by_sum(matrix + k, n, n, eps);
  for (int64_t i = 1; i < iterations; ++i) {
    for (int64_t j = 0; j < n; ++j) divide_by_sum(matrix + j * n, 1, n, eps);
    for (int64_t k = 0; k < n; ++k) divide_by_sum(matrix + k, n, n, eps);
  }
}

void stream_weights(const StreamParams& params, bool adds, float* weights) {
  const int64_t n = params.n;
  float *in = weights, *out = in + n, *matrix = out + n;
  const float *scale = params.scale, *base = params.base;
  store_partial(in, n, add(sigmoid(scaled_logits(in, scale[0], base, n)), broadcast(params.eps)));
  if (!adds) return;
  store_partial(out, n, mul(broadcast(2.0f), sigmoid(scaled_logits(out, scale[1], base + n, n))));
  for (int64_t j = 0; j < n; ++j) soften_stream_row(matrix + j * n, scale[2], base + (2 + j) * n, n, params.eps);
  normalise_streams(matrix, n, params.iterations, params.eps);
}

void collapse_streams(const float* x, const float* weights, int64_t streams, int64_t n, float* out) {
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    F32x16 sum = zero();
    for (int64_t s = 0; s < streams; ++s) sum = fma(broadcast(weights[s]), load_run(x + s * n + i, lanes), sum);
    store_run(out + i, lanes, sum);
  });
}

void expand_streams(float* x, const float* weights, const float* y, int64_t streams, int64_t n) {
  const float *out = weights + streams, *matrix = out + streams;
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    F32x16 before[kMaxStreams];
    for (int64_t s = 0; s < streams; ++s) before[s] = load_run(x + s * n + i, lanes);
    const F32x16 added = load_run(y + i, lanes);
    for (int64_t k = 0; k < streams; ++k) {
      F32x16 sum = mul(broadcast(out[k]), added);
      for (int64_t j = 0; j < streams; ++j) sum = fma(broadcast(matrix[j * streams + k]), before[j], sum);
      store_run(x + k * n + i, lanes, sum);
    }
  });
}

}  // namespace
}  // namespace colibri::compute
