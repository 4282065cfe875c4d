// Register tiles of matrix products: MR rows by P panels of 16 outputs, over the F32x16 included before.
//
// One k step loads P weight vectors (decoded in registers) and broadcasts MR activations: MR * P independent chains of
// fma, each over ascending k, whatever MR and P are. So neither changes a result.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

// How weights lie in a panel: blocks of kBlock inputs that take kBlockBytes; `Scale` is what a whole block shares.
struct NoScale {};

template <typename Element, F32x16 (*kLoad)(const Element*)>
struct PlainWeights {
  static constexpr int64_t kBlock = 64;
  static constexpr int64_t kBlockBytes = kBlock * kLanes * static_cast<int64_t>(sizeof(Element));
  using Scale = NoScale;
  static COLIBRI_INLINE Scale scale(const unsigned char* /*block*/) { return {}; }
  static COLIBRI_INLINE F32x16 weights(const unsigned char* block, int64_t i, Scale /*scale*/) {
    return kLoad(reinterpret_cast<const Element*>(block) + i * kLanes);
  }
};
using F32Weights = PlainWeights<float, load>;
using F16Weights = PlainWeights<uint16_t, load_f16>;
using BF16Weights = PlainWeights<uint16_t, load_bf16>;

/// a[k][rows] = the given rows of x, each [k].
void pack_tile(const float* const* x, int64_t rows, int64_t k, float* a) {
  const float* sixteen[kLanes];
  for (int64_t r = 0; r < kLanes; ++r) sixteen[r] = x[r < rows ? r : 0];
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    F32x16 column[4];
    load_columns(sixteen, i, column);
    COLIBRI_UNROLL
    for (int c = 0; c < 4; ++c) store_partial(a + (i + c) * rows, rows, column[c]);
  }
  for (; i < k; ++i)
    for (int64_t r = 0; r < rows; ++r) a[i * rows + r] = x[r][i];
}

// How the rows of `a` lie: side by side for each k, or one after the other.
template <int MR>
struct PackedRows {
  static COLIBRI_INLINE float at(const float* a, int64_t k, int r) { return a[k * MR + r]; }
};
template <int kStride>
struct SeparateRows {
  template <int MR>
  struct Layout {
    static COLIBRI_INLINE float at(const float* a, int64_t k, int r) { return a[r * kStride + k]; }
  };
};
struct Packed {
  template <int MR>
  using Layout = PackedRows<MR>;
};

/// Several panels are read at once, each in short rows: more streams than the processor's own prefetcher follows well.
/// Half a kilobyte ahead gave a fifth more bandwidth for one row and 5 % more speed for many. The address may lie
/// behind the matrix; a prefetch never faults.
COLIBRI_INLINE void prefetch_ahead(const unsigned char* weights) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(weights) + 512));
}

template <typename A, typename W, int MR, int P>
COLIBRI_INLINE void accumulate_tile(const TileJob& job, const unsigned char* panels, F32x16 (&sums)[MR][P]) {
  using Layout = typename A::template Layout<MR>;
  for (int64_t first = 0; first < job.k; first += W::kBlock, panels += W::kBlockBytes) {
    typename W::Scale scales[P];
    COLIBRI_UNROLL
    for (int p = 0; p < P; ++p) scales[p] = W::scale(panels + p * job.panel_stride);
    const int64_t count = job.k - first < W::kBlock ? job.k - first : W::kBlock;
    for (int64_t i = 0; i < count; ++i) {
      F32x16 w[P];
      COLIBRI_UNROLL
      for (int p = 0; p < P; ++p) {
        const unsigned char* panel = panels + p * job.panel_stride;
        w[p] = W::weights(panel, i, scales[p]);
        prefetch_ahead(panel + i * (W::kBlockBytes / W::kBlock));
      }
      COLIBRI_UNROLL
      for (int r = 0; r < MR; ++r) {
        const F32x16 x = broadcast(Layout::at(job.a, first + i, r));
        COLIBRI_UNROLL
        for (int p = 0; p < P; ++p) sums[r][p] = fma(x, w[p], sums[r][p]);
      }
    }
  }
}

/// One register tile: outputs [column, column + 16 P) of all rows; those from job.n on do not exist.
template <typename A, typename W, int MR, int P>
COLIBRI_INLINE void multiply_tile(const TileJob& job, int64_t column) {
  F32x16 sums[MR][P];
  int64_t lanes[P];
  COLIBRI_UNROLL
  for (int p = 0; p < P; ++p) {
    const int64_t left = job.n - column - p * kLanes;
    lanes[p] = left < kLanes ? left : kLanes;
  }
  float* c = job.c + column;
  COLIBRI_UNROLL
  for (int r = 0; r < MR; ++r) {
    COLIBRI_UNROLL
    for (int p = 0; p < P; ++p)
      sums[r][p] = job.accumulate ? load_run(c + r * job.c_stride + p * kLanes, lanes[p]) : zero();
  }
  const auto* panels = static_cast<const unsigned char*>(job.panels) + column / kLanes * job.panel_stride;
  accumulate_tile<A, W, MR, P>(job, panels, sums);
  COLIBRI_UNROLL
  for (int p = 0; p < P; ++p) {
    const F32x16 bias = job.bias != nullptr ? load_run(job.bias + column + p * kLanes, lanes[p]) : zero();
    COLIBRI_UNROLL
    for (int r = 0; r < MR; ++r) {
      const F32x16 y = job.bias != nullptr ? add(sums[r][p], bias) : sums[r][p];
      store_run(c + r * job.c_stride + p * kLanes, lanes[p], y);
    }
  }
}

/// As many groups of P panels as fit from `column` on, then narrower groups. Returns when all outputs are done.
template <typename A, typename W, int MR, int P>
COLIBRI_INLINE void multiply_panels(const TileJob& job, int64_t column) {
  for (; column + (P - 1) * kLanes < job.n; column += P * kLanes) multiply_tile<A, W, MR, P>(job, column);
  if constexpr (P > 1) multiply_panels<A, W, MR, P / 2>(job, column);
}

template <typename A, typename W, int MR>
__attribute__((noinline)) void multiply_rows(const TileJob& job) {
  multiply_panels<A, W, MR, tile_panels(MR)>(job, 0);
}

/// Picks the instance for job.rows, counting down from MR.
template <typename A, typename W, int MR>
void multiply(const TileJob& job) {
  if constexpr (MR > 1) {
    if (job.rows < MR) return multiply<A, W, MR - 1>(job);
  }
  multiply_rows<A, W, MR>(job);
}

template <typename W>
void tile(const TileJob* job) {
  multiply<Packed, W, kTileRows>(*job);
}

}  // namespace
}  // namespace colibri::compute
