// Products of 8-bit activations with quantised panels, over the vectors included before.
//
// What one output is, on every level (backend.h). Per strip s of 256 inputs, with exact whole-number sums:
//   kCentred  p = chain over groups g of fma(dot_g - offset * sum_g, d_g, p) from 0
//   kMinimum  p = chain over groups g of fma(dot_g, d_g, p), then fma(sum_g, m_g, p), from 0
//   kSuper32  p = fma(-(sum of factor_g * sum_g), m, (sum of sc_g * dot_g) * d)
//   kSuper16  p = (sum of sc_j * (dot_j - offset * sum_j)) * d
//   kSuper16Minimum  p = fma(-(sum of factor_j * sum_j), m, (sum of sc_j * dot_j) * d)
// where dot is of bytes and activations, and sum of activations. Then y = fma(p, scale_s, y), strips ascending, from 0.
//
// Few rows multiply lines as they are decoded. More rows go over lines and scales that were unpacked once per strip.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/codec_inl.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

static_assert(kDotPanels <= kMaxDotPanels);

/// A strip whose lines are decoded where they are multiplied.
template <typename C>
struct PackedStrip {
  using Codec = C;
  StripScales scales;
  const uint8_t* low;
  const uint8_t* high;
  COLIBRI_INLINE U8x64 line(int64_t g, int i) const { return C::Lines::line(low, high, g, i); }
};

/// A strip whose lines are plain bytes.
template <typename C>
struct UnpackedStrip {
  using Codec = C;
  StripScales scales;
  alignas(64) uint8_t lines[kStripWidth / 4 * kLine];
  COLIBRI_INLINE U8x64 line(int64_t g, int i) const { return load_line(lines + (kGroupLines * g + i) * kLine); }
};

/// Weights stream through once. The processor's own prefetcher stops at every page; asking this far ahead keeps memory
/// busy while a strip is multiplied. The address may lie behind the matrix; a prefetch never faults.
constexpr int64_t kPrefetchBytes = 4096;
COLIBRI_INLINE void prefetch_strip(const uint8_t* strip, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(strip) + static_cast<uintptr_t>(i)), 0,
                       2);
}

template <typename C>
COLIBRI_INLINE void open_strip(const uint8_t* strip, int64_t inputs, PackedStrip<C>* out) {
  C::Scales::read(strip, inputs, &out->scales);
  out->low = strip + C::low_at(inputs);
  out->high = strip + C::high_at(inputs);
}
template <typename C>
COLIBRI_INLINE void open_strip(const uint8_t* strip, int64_t inputs, UnpackedStrip<C>* out) {
  C::Scales::read(strip, inputs, &out->scales);
  for (int64_t g = 0; g < inputs / kGroup; ++g) {
    COLIBRI_UNROLL
    for (int i = 0; i < kGroupLines; ++i) {
      const U8x64 line = C::Lines::line(strip + C::low_at(inputs), strip + C::high_at(inputs), g, i);
      store_line(out->lines + (kGroupLines * g + i) * kLine, line);
    }
  }
}

/// dots[r][p] += lines [first, first + count) of group g times the activations beside them.
template <int kFirst, int kCount, typename Strip, int R, int P>
COLIBRI_INLINE void add_dots(const Strip (&w)[P], const ActivationStrip* const (&x)[R], int64_t g,
                             I32x16 (&dots)[R][P]) {
  COLIBRI_UNROLL
  for (int i = kFirst; i < kFirst + kCount; ++i) {
    U8x64 line[P];
    COLIBRI_UNROLL
    for (int p = 0; p < P; ++p) line[p] = w[p].line(g, i);
    COLIBRI_UNROLL
    for (int r = 0; r < R; ++r) {
      COLIBRI_UNROLL
      for (int p = 0; p < P; ++p)
        dots[r][p] = dot4<Strip::Codec::kSmall>(dots[r][p], line[p], x[r]->q + kGroup * g + 4 * i);
    }
  }
}

#define COLIBRI_FOR_TILE                     \
  COLIBRI_UNROLL                             \
  for (int r = 0; r < R; ++r) COLIBRI_UNROLL \
  for (int p = 0; p < P; ++p)

/// A 16-bit number in both halves, as dot2 wants factors.
constexpr int32_t twice(int x) { return static_cast<int32_t>((static_cast<uint32_t>(x) & 0xffffu) * 0x10001u); }

template <typename Strip, int R, int P>
COLIBRI_INLINE void add_groups(const Strip (&w)[P], const ActivationStrip* const (&x)[R], int64_t groups,
                               F32x16 (&part)[R][P]) {
  constexpr bool kMinima = Strip::Codec::kForm == Form::kMinimum;
  const I32x16 ones = broadcast_int(twice(1)), offsets = broadcast_int(twice(-Strip::Codec::kOffset));
  COLIBRI_FOR_TILE part[r][p] = zero();
  for (int64_t g = 0; g < groups; ++g) {
    I32x16 dots[R][P];
    COLIBRI_FOR_TILE dots[r][p] = kMinima ? zero_int() : dot2(zero_int(), offsets, x[r]->sums + 2 * g);
    add_dots<0, kGroupLines>(w, x, g, dots);
    COLIBRI_FOR_TILE part[r][p] = fma(to_float(dots[r][p]), load(w[p].scales.d[g]), part[r][p]);
    if constexpr (kMinima) {
      COLIBRI_FOR_TILE part[r][p] =
          fma(to_float(dot2(zero_int(), ones, x[r]->sums + 2 * g)), load(w[p].scales.m[g]), part[r][p]);
    }
  }
}

/// The sum of kPairs pairs of factors times pairs of sums of activations.
template <int kPairs>
COLIBRI_INLINE I32x16 weigh_sums(const StripScales& scales, const int16_t* sums) {
  I32x16 total = zero_int();
  COLIBRI_UNROLL
  for (int g = 0; g < kPairs; ++g) total = dot2(total, load_ints(scales.pairs[g]), sums + 2 * g);
  return total;
}

/// total[r][p] = the whole number, sum over groups of sc * dot, as a float.
template <typename Strip, int R, int P>
COLIBRI_INLINE void scale_dots(const Strip (&w)[P], const ActivationStrip* const (&x)[R], F32x16 (&total)[R][P]) {
  I32x16 sums[R][P];
  COLIBRI_FOR_TILE sums[r][p] = zero_int();
  for (int64_t g = 0; g < kStripGroups; ++g) {
    I32x16 dots[R][P];
    COLIBRI_FOR_TILE dots[r][p] = zero_int();
    add_dots<0, kGroupLines>(w, x, g, dots);
    COLIBRI_FOR_TILE sums[r][p] = add(sums[r][p], mul(dots[r][p], load_ints(w[p].scales.sc[g])));
  }
  COLIBRI_FOR_TILE total[r][p] = to_float(sums[r][p]);
}

/// The same for u below 16. |dot| <= 32 * 15 * 127, times 63, times 4 groups is below 2^24: a chain over half of the
/// groups is exact in floats, and the sum of two exact halves rounds as the whole number does when it becomes a float.
/// A fused multiply-add is half the work of an integer product and a sum.
template <typename Strip, int R, int P>
COLIBRI_INLINE void scale_dots_in_floats(const Strip (&w)[P], const ActivationStrip* const (&x)[R],
                                         F32x16 (&total)[R][P]) {
  F32x16 first[R][P];
  for (int64_t half = 0; half < 2; ++half) {
    COLIBRI_FOR_TILE {
      first[r][p] = total[r][p];
      total[r][p] = zero();
    }
    for (int64_t g = half * (kStripGroups / 2); g < (half + 1) * (kStripGroups / 2); ++g) {
      I32x16 dots[R][P];
      COLIBRI_FOR_TILE dots[r][p] = zero_int();
      add_dots<0, kGroupLines>(w, x, g, dots);
      COLIBRI_FOR_TILE total[r][p] =
          fma(to_float(dots[r][p]), load(reinterpret_cast<const float*>(w[p].scales.sc[g])), total[r][p]);
    }
  }
  COLIBRI_FOR_TILE total[r][p] = add(first[r][p], total[r][p]);
}

template <typename Strip, int R, int P>
COLIBRI_INLINE void add_super32(const Strip (&w)[P], const ActivationStrip* const (&x)[R], F32x16 (&part)[R][P]) {
  if constexpr (Strip::Codec::kForm == Form::kSuper32Floats) {
    COLIBRI_FOR_TILE part[r][p] = zero();
    scale_dots_in_floats(w, x, part);
  } else {
    scale_dots(w, x, part);
  }
  COLIBRI_FOR_TILE {
    const F32x16 weighed = to_float(weigh_sums<kStripGroups / 2>(w[p].scales, x[r]->pair_sums));
    part[r][p] = negated_fma(weighed, load(w[p].scales.m[0]), mul(part[r][p], load(w[p].scales.d[0])));
  }
}

template <typename Strip, int R, int P>
COLIBRI_INLINE void add_super16(const Strip (&w)[P], const ActivationStrip* const (&x)[R], F32x16 (&part)[R][P]) {
  constexpr bool kMinima = Strip::Codec::kForm == Form::kSuper16Minimum;
  const I32x16 offset = broadcast_int(-Strip::Codec::kOffset);
  I32x16 total[R][P];
  COLIBRI_FOR_TILE total[r][p] = kMinima ? zero_int() : mul(weigh_sums<kStripGroups>(w[p].scales, x[r]->sums), offset);
  for (int64_t g = 0; g < kStripGroups; ++g) {
    I32x16 dots[R][P];
    COLIBRI_FOR_TILE dots[r][p] = zero_int();
    add_dots<0, kGroupLines / 2>(w, x, g, dots);
    COLIBRI_FOR_TILE total[r][p] = add(total[r][p], mul(dots[r][p], load_ints(w[p].scales.sc[2 * g])));
    COLIBRI_FOR_TILE dots[r][p] = zero_int();
    add_dots<kGroupLines / 2, kGroupLines / 2>(w, x, g, dots);
    COLIBRI_FOR_TILE total[r][p] = add(total[r][p], mul(dots[r][p], load_ints(w[p].scales.sc[2 * g + 1])));
  }
  COLIBRI_FOR_TILE part[r][p] = mul(to_float(total[r][p]), load(w[p].scales.d[0]));
  if constexpr (kMinima) {
    COLIBRI_FOR_TILE {
      const F32x16 weighed = to_float(weigh_sums<kStripGroups>(w[p].scales, x[r]->sums));
      part[r][p] = negated_fma(weighed, load(w[p].scales.m[0]), part[r][p]);
    }
  }
}

/// sums[r][p] += one strip.
template <typename Strip, int R, int P>
COLIBRI_INLINE void add_strip(const Strip (&w)[P], const ActivationStrip* const (&x)[R], int64_t inputs,
                              F32x16 (&sums)[R][P]) {
  constexpr Form form = Strip::Codec::kForm;
  F32x16 part[R][P];
  if constexpr (form == Form::kSuper32 || form == Form::kSuper32Floats) {
    add_super32(w, x, part);
  } else if constexpr (form == Form::kSuper16 || form == Form::kSuper16Minimum) {
    add_super16(w, x, part);
  } else {
    add_groups(w, x, inputs / kGroup, part);
  }
  COLIBRI_FOR_TILE sums[r][p] = fma(part[r][p], broadcast(x[r]->scale), sums[r][p]);
}

/// Rows [first, first + R) and P panels from `column` on are finished.
template <int R, int P>
COLIBRI_INLINE void store_product(const ProductJob& job, int64_t first, int64_t column, F32x16 (&sums)[R][P]) {
  COLIBRI_UNROLL
  for (int p = 0; p < P; ++p) {
    const int64_t at = column + p * kLanes, lanes = job.n - at < kLanes ? job.n - at : kLanes;
    const F32x16 bias = job.bias != nullptr ? load_run(job.bias + at, lanes) : zero();
    COLIBRI_UNROLL
    for (int r = 0; r < R; ++r) {
      const F32x16 y = job.bias != nullptr ? add(sums[r][p], bias) : sums[r][p];
      store_run(job.c + (first + r) * job.c_stride + at, lanes, y);
    }
  }
}

template <int R>
COLIBRI_INLINE void rows_at(const ProductJob& job, int64_t first, int64_t strip, const ActivationStrip* (&x)[R]) {
  COLIBRI_UNROLL
  for (int r = 0; r < R; ++r) x[r] = job.x[first + r] + strip;
}
COLIBRI_INLINE int64_t inputs_at(const ProductJob& job, int64_t strip) {
  const int64_t left = job.k - strip * kStripWidth;
  return left < kStripWidth ? left : kStripWidth;
}

template <typename C, int R>
__attribute__((noinline)) void multiply_packed(const ProductJob& job) {
  const auto* panel = static_cast<const uint8_t*>(job.panels);
  for (int64_t column = 0; column < job.n; column += kLanes, panel += job.panel_stride) {
    F32x16 sums[R][1];
    for (int r = 0; r < R; ++r) sums[r][0] = zero();
    const uint8_t* strip = panel;
    for (int64_t s = 0; s * kStripWidth < job.k; ++s) {
      const int64_t inputs = inputs_at(job, s);
      PackedStrip<C> w[1];
      prefetch_strip(strip + kPrefetchBytes, C::strip_bytes(inputs));
      open_strip(strip, inputs, &w[0]);
      const ActivationStrip* x[R];
      rows_at(job, 0, s, x);
      add_strip(w, x, inputs, sums);
      strip += C::strip_bytes(inputs);
    }
    store_product(job, 0, column, sums);
  }
}

/// One strip of P panels for one tile of rows; sums wait in job.sums until the last strip.
template <typename C, int R, int P>
__attribute__((noinline)) void multiply_unpacked(const ProductJob& job, const UnpackedStrip<C> (&w)[P], int64_t first,
                                                 int64_t column, int64_t strip) {
  F32x16 sums[R][P];
  float* waiting = job.sums + first * P * kLanes;
  COLIBRI_FOR_TILE sums[r][p] = strip == 0 ? zero() : load(waiting + (r * P + p) * kLanes);
  const ActivationStrip* x[R];
  rows_at(job, first, strip, x);
  add_strip(w, x, inputs_at(job, strip), sums);
  if ((strip + 1) * kStripWidth >= job.k) return store_product(job, first, column, sums);
  COLIBRI_FOR_TILE store(waiting + (r * P + p) * kLanes, sums[r][p]);
}

// Tiles are nearly equal, so none is smaller than this.
constexpr int kLeastDotRows = kDirectRows + 1 < (kDotRows + 1) / 2 ? kDirectRows + 1 : (kDotRows + 1) / 2;

template <typename C, int P, int R = kDotRows>
COLIBRI_INLINE void multiply_tile_of(int64_t rows, const ProductJob& job, const UnpackedStrip<C> (&w)[P], int64_t first,
                                     int64_t column, int64_t strip) {
  if constexpr (R > kLeastDotRows) {
    if (rows < R) return multiply_tile_of<C, P, R - 1>(rows, job, w, first, column, strip);
  }
  multiply_unpacked<C, R, P>(job, w, first, column, strip);
}

template <typename C, int P>
void multiply_panels_unpacked(const ProductJob& job, int64_t column) {
  const auto* panel = static_cast<const uint8_t*>(job.panels) + column / kLanes * job.panel_stride;
  const int64_t tiles = (job.rows + kDotRows - 1) / kDotRows;
  UnpackedStrip<C> w[P];
  for (int64_t s = 0; s * kStripWidth < job.k; ++s) {
    const int64_t inputs = inputs_at(job, s), bytes = C::strip_bytes(inputs);
    for (int p = 0; p < P; ++p) open_strip(panel + p * job.panel_stride, inputs, &w[p]);
    panel += bytes;
    // The next strip arrives while the rows are multiplied, a part with every tile: all at once would fill the buffers
    // that the rows themselves need.
    const int64_t part = whole_lines((bytes + tiles - 1) / tiles);
    for (int64_t t = 0; t < tiles; ++t) {
      for (int p = 0; p < P; ++p) prefetch_strip(panel + p * job.panel_stride + t * part, part);
      const int64_t first = job.rows * t / tiles;
      multiply_tile_of<C, P>(job.rows * (t + 1) / tiles - first, job, w, first, column, s);
    }
  }
}

template <typename C, int R = kDirectRows>
COLIBRI_INLINE void multiply_few(const ProductJob& job) {
  if constexpr (R > 1) {
    if (job.rows < R) return multiply_few<C, R - 1>(job);
  }
  multiply_packed<C, R>(job);
}

template <typename C>
void product(const ProductJob* job) {
  if (job->rows <= kDirectRows) return multiply_few<C>(*job);
  int64_t column = 0;
  for (; column + (kDotPanels - 1) * kLanes < job->n; column += kDotPanels * kLanes)
    multiply_panels_unpacked<C, kDotPanels>(*job, column);
  for (; column < job->n; column += kLanes) multiply_panels_unpacked<C, 1>(*job, column);
}

#undef COLIBRI_FOR_TILE

}  // namespace
}  // namespace colibri::compute
