// Products of 8-bit activations with block encodings: each strip is expanded to bytes and float scales of 16 inputs
// (tensor/expanded_strip.h), by a function that the caller gives, and then multiplied with all rows. Over the vectors
// and product_inl.h, included before.
//
// What one output is, on every level. Per strip of 256 inputs, with exact whole-number sums:
//   p = chain over runs j of 16 inputs of fma(dot_j - 64 * sum_j, d_j, p) from 0
// Then y = fma(p, scale_s, y), strips ascending, from 0.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/product_inl.h"

namespace colibri::compute {
namespace {

struct ExpandedLines {
  struct Codec {
    static constexpr bool kSmall = true;  // see dot4
  };
  ExpandedStrip strip;
  COLIBRI_INLINE U8x64 line(int64_t g, int i) const { return load_line(strip.lines[kGroupLines * g + i]); }
};

/// Run j of 16 inputs, which is one half of a group.
template <int kFirstLine, int R>
COLIBRI_INLINE void add_sixteen(const ExpandedLines (&w)[1], const ActivationStrip* const (&x)[R], int64_t j,
                                F32x16 (&part)[R]) {
  I32x16 dots[R][1];
  COLIBRI_UNROLL
  for (int r = 0; r < R; ++r) dots[r][0] = broadcast_int(-kExpandedOffset * x[r]->sums[j]);
  add_dots<kFirstLine, kGroupLines / 2>(w, x, j / 2, dots);
  COLIBRI_UNROLL
  for (int r = 0; r < R; ++r) part[r] = fma(to_float(dots[r][0]), load(w[0].strip.d[j]), part[r]);
}

/// One strip of one panel for one tile of rows; sums wait in job.sums until the last strip.
template <int R>
__attribute__((noinline)) void multiply_expanded(const ProductJob& job, const ExpandedLines (&w)[1], int64_t first,
                                                 int64_t column, int64_t strip) {
  const ActivationStrip* x[R];
  rows_at(job, first, strip, x);
  F32x16 part[R], sums[R][1];
  COLIBRI_UNROLL
  for (int r = 0; r < R; ++r) part[r] = zero();
  for (int64_t j = 0; j < inputs_at(job, strip) / 16; j += 2) {
    add_sixteen<0>(w, x, j, part);
    add_sixteen<kGroupLines / 2>(w, x, j + 1, part);
  }
  float* waiting = job.sums + first * kLanes;
  COLIBRI_UNROLL
  for (int r = 0; r < R; ++r)
    sums[r][0] = fma(part[r], broadcast(x[r]->scale), strip == 0 ? zero() : load(waiting + r * kLanes));
  if ((strip + 1) * kStripWidth >= job.k) return store_product(job, first, column, sums);
  COLIBRI_UNROLL
  for (int r = 0; r < R; ++r) store(waiting + r * kLanes, sums[r][0]);
}

template <int R = kDotRows>
COLIBRI_INLINE void multiply_expanded_rows(int64_t rows, const ProductJob& job, const ExpandedLines (&w)[1],
                                           int64_t first, int64_t column, int64_t strip) {
  if constexpr (R > 1) {
    if (rows < R) return multiply_expanded_rows<R - 1>(rows, job, w, first, column, strip);
  }
  multiply_expanded<R>(job, w, first, column, strip);
}

void expanded_product(const ProductJob* job) {
  const int64_t tiles = (job->rows + kDotRows - 1) / kDotRows;
  const auto* panel = static_cast<const uint8_t*>(job->panels);
  ExpandedLines w[1];
  for (int64_t column = 0; column < job->n; column += kLanes, panel += job->panel_stride) {
    for (int64_t s = 0; s * kStripWidth < job->k; ++s) {
      const uint8_t* strip = panel + s * job->strip_stride;
      prefetch_strip(strip + kPrefetchBytes, job->strip_stride);
      job->expand(strip, inputs_at(*job, s), &w[0].strip);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t first = job->rows * t / tiles;
        multiply_expanded_rows(job->rows * (t + 1) / tiles - first, *job, w, first, column, s);
      }
    }
  }
}

}  // namespace
}  // namespace colibri::compute
