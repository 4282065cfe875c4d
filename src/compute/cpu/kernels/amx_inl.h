// Products of many rows through matrix tiles. Over AVX-512 vectors, product_inl.h and one of tiles_*.h, included
// before.
//
// The whole numbers of product_inl.h are exact, so they may be computed in any way; the float chains are the same. What
// tiles multiply are panels' lines once they are plain bytes:
//   kCentred  one tile product of 32 inputs per group; lines become u - offset, signed, so that no sum of activations
//             is needed
//   kMinimum  the same with u
//   kSuper32  whole sums over the strip: sc is split into low + 8 * high, and both multiply u within a byte, so that
//   two
//             products of 64 inputs do what a product and a multiplication per group of 32 would
//   kSuper16  sc * (u - offset) in 14 bits, split into a low unsigned and a high signed byte
//   kSuper16Minimum  as kSuper32
// Block encodings (expanded_inl.h) are multiplied by vectors: expanding them takes longest, and tiles of 16 inputs are
// a quarter full.
//
// Strips are the outer loop: the activations of a strip are copied side by side once for all panels, and the sums so
// far wait in the output. A tile product takes as long as about 30 vector operations and runs beside them, so the float
// part of a block comes after the tile products of the next one.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "compute/cpu/kernels/codec_inl.h"
#include "compute/cpu/kernels/expanded_inl.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/product_inl.h"
#include "compute/cpu/kernels/tile_config.h"

namespace colibri::compute {
namespace {

/// Fewer rows do not pay for the unpacking, which is dearer than that for vectors: Q6_K breaks even here, others at 5
/// rows (the vector part measured, tile products counted as one cycle per row and 64 inputs or group).
constexpr int kLeastTiledRows = 8;

constexpr bool is_super32(Form form) { return form == Form::kSuper32 || form == Form::kSuper32Floats; }
constexpr bool is_super16(Form form) { return form == Form::kSuper16 || form == Form::kSuper16Minimum; }
constexpr bool is_super(Form form) { return is_super32(form) || is_super16(form); }

/// How a form uses tiles. A block is what is multiplied before sums are looked at: some tiles of rows, one panel, one
/// strip. Per tile of rows it has `kSums` tiles of sums: one per group, or one per part of sc.
template <Form kForm>
struct TileUse {
  static constexpr int kDepth = is_super(kForm) ? 64 : kGroup;
  static constexpr int kRowTiles = is_super(kForm) ? 2 : 1;
  static constexpr int kSums = is_super(kForm) ? 2 : kStripGroups;
  static constexpr int kHighShift = kForm == Form::kSuper16 ? 8 : 3;  ///< the high part counts 2^shift times
  static_assert(kRowTiles * kSums * kTileInts <= kTileSumInts);
};
template <typename C>
using UseOf = TileUse<C::kForm>;

// ---- weights ----

/// A strip of a panel, ready for tiles.
struct TiledStrip {
  StripScales scales;  ///< sc as whole numbers, whatever the encoding asks for
  uint8_t* lines[2];   ///< low, high parts of the super kinds; else one
};

COLIBRI_INLINE U8x64 mul16(U8x64 x, I32x16 factors) { return {_mm512_mullo_epi16(x.v, factors.v)}; }
COLIBRI_INLINE I32x16 in_both_halves(I32x16 x) { return bit_or(bit_and(x, broadcast_int(0xffff)), shift_left(x, 16)); }

/// sc * u for some lines of one sc, in two bytes each. u is below 32 and factors are below 8, so the products of two
/// bytes side by side do not carry from one to the other.
struct Super32Split {
  I32x16 low, high;
  explicit Super32Split(I32x16 sc)
      : low(in_both_halves(bit_and(sc, broadcast_int(7)))), high(in_both_halves(shift_right(sc, 3))) {}
  COLIBRI_INLINE void store(U8x64 u, uint8_t* to_low, uint8_t* to_high) const {
    store_line(to_low, mul16(u, low));
    store_line(to_high, mul16(u, high));
  }
};
/// sc * (u - offset), likewise.
template <typename C>
struct Super16Split {
  __m512i factors, offsets;
  explicit Super16Split(I32x16 sc)
      : factors(in_both_halves(sc).v), offsets(_mm512_mullo_epi16(factors, _mm512_set1_epi16(C::kOffset))) {}
  COLIBRI_INLINE void store(U8x64 u, uint8_t* to_low, uint8_t* to_high) const {
    const I32x16 even_bytes = broadcast_int(0x00ff00ff), odd_bytes = broadcast_int(static_cast<int32_t>(0xff00ff00));
    const __m512i even = _mm512_sub_epi16(_mm512_mullo_epi16(bit_and({u.v}, even_bytes).v, factors), offsets);
    const __m512i odd = _mm512_sub_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(u.v, 8), factors), offsets);
    store_line(to_low, {bit_or_and({_mm512_slli_epi16(odd, 8)}, {even}, even_bytes).v});
    store_line(to_high, {bit_or_and({_mm512_srli_epi16(even, 8)}, {odd}, odd_bytes).v});
  }
};
template <typename C, Form = C::kForm>
struct SplitOf16 {
  using Type = Super16Split<C>;
};
template <typename C>
struct SplitOf16<C, Form::kSuper16Minimum> {
  using Type = Super32Split;
};
/// u - offset, as a signed byte.
template <typename C>
struct Centre {
  explicit Centre(I32x16 /*sc*/) {}
  COLIBRI_INLINE void store(U8x64 u, uint8_t* to, uint8_t* /*to_high*/) const {
    store_line(to, {_mm512_sub_epi8(u.v, _mm512_set1_epi8(static_cast<char>(C::kOffset)))});
  }
};

/// Lines [first, first + count) of group g.
template <typename C, typename Split, int kFirst, int kCount>
COLIBRI_INLINE void split_lines(const uint8_t* strip, int64_t inputs, int64_t g, const int32_t* sc, TiledStrip* out) {
  const Split split(load_ints(sc));
  COLIBRI_UNROLL
  for (int i = kFirst; i < kFirst + kCount; ++i) {
    const int64_t at = (kGroupLines * g + i) * kLine;
    const U8x64 u = C::Lines::line(strip + C::low_at(inputs), strip + C::high_at(inputs), g, i);
    split.store(u, out->lines[0] + at, out->lines[1] + at);
  }
}

template <typename C>
void open_strip(const uint8_t* strip, int64_t inputs, TiledStrip* out) {
  StripScales& scales = out->scales;
  if constexpr (is_super32(C::kForm)) {
    SuperScales<false>::read(strip, inputs, &scales);
    for (int64_t g = 0; g < kStripGroups; ++g)
      split_lines<C, Super32Split, 0, kGroupLines>(strip, inputs, g, scales.sc[g], out);
  } else if constexpr (is_super16(C::kForm)) {
    using Split = typename SplitOf16<C>::Type;
    C::Scales::read(strip, inputs, &scales);
    for (int64_t g = 0; g < kStripGroups; ++g) {
      split_lines<C, Split, 0, kGroupLines / 2>(strip, inputs, g, scales.sc[2 * g], out);
      split_lines<C, Split, kGroupLines / 2, kGroupLines / 2>(strip, inputs, g, scales.sc[2 * g + 1], out);
    }
  } else {
    C::Scales::read(strip, inputs, &scales);
    for (int64_t g = 0; g < inputs / kGroup; ++g)
      split_lines<C, Centre<C>, 0, kGroupLines>(strip, inputs, g, scales.sc[0], out);
  }
}

// ---- tile products ----

/// Group g into sums [16][16] of its own. Neighbours use other tiles, so that none waits for the one before.
template <bool kSigned, int kTurn>
COLIBRI_INLINE void multiply_group(const int8_t* rows, const uint8_t* lines, int64_t g, int32_t* sums) {
  constexpr int s = kSumTile + kTurn, r = kRowTile + kTurn % 2, w = kWeightTile + kTurn % 2;
  tile_zero<s>();
  tile_load<r>(rows + g * kGroup, kStripWidth);
  tile_load<w>(lines + g * (kGroupLines * kLine), kLine);
  tile_dot<kSigned, s, r, w>();
  tile_store<s>(sums + g * kTileInts, kTileRowBytes);
}

template <bool kSigned>
void multiply_groups(const int8_t* rows, const TiledStrip& w, int64_t groups, int32_t* sums) {
  for (int64_t g = 0; g < groups; g += 4) {
    multiply_group<kSigned, 0>(rows, w.lines[0], g, sums);
    if (g + 1 < groups) multiply_group<kSigned, 1>(rows, w.lines[0], g + 1, sums);
    if (g + 2 < groups) multiply_group<kSigned, 2>(rows, w.lines[0], g + 2, sums);
    if (g + 3 < groups) multiply_group<kSigned, 3>(rows, w.lines[0], g + 3, sums);
  }
}

/// Low and high sums of a tile of rows: sum tiles kFirst and kFirst + 1.
template <bool kSignedHigh, int kFirst, int kRows>
COLIBRI_INLINE void add_parts(const int8_t* rows) {
  tile_load<kRows>(rows, kStripWidth);
  tile_dot<false, kFirst, kRows, kWeightTile>();
  tile_dot<kSignedHigh, kFirst + 1, kRows, kWeightTile + 1>();
}
template <int kFirst>
COLIBRI_INLINE void store_parts(int32_t* sums) {
  tile_store<kFirst>(sums, kTileRowBytes);
  tile_store<kFirst + 1>(sums + kTileInts, kTileRowBytes);
}

/// A whole strip for one tile of rows, or two that share the loads of weights.
template <bool kSignedHigh, bool kTwo>
void multiply_parts(const int8_t* rows, int64_t height, const TiledStrip& w, int32_t* sums) {
  tile_zero<kSumTile>();
  tile_zero<kSumTile + 1>();
  if constexpr (kTwo) tile_zero<kSumTile + 2>();
  if constexpr (kTwo) tile_zero<kSumTile + 3>();
  for (int64_t i = 0; i < kStripWidth; i += 64) {
    tile_load<kWeightTile>(w.lines[0] + i / 4 * kLine, kLine);
    tile_load<kWeightTile + 1>(w.lines[1] + i / 4 * kLine, kLine);
    add_parts<kSignedHigh, kSumTile, kRowTile>(rows + i);
    if constexpr (kTwo) add_parts<kSignedHigh, kSumTile + 2, kRowTile + 1>(rows + height * kStripWidth + i);
  }
  store_parts<kSumTile>(sums);
  if constexpr (kTwo) store_parts<kSumTile + 2>(sums + 2 * kTileInts);
}

// ---- blocks ----

/// Rows are cut into tiles of one height, as low as the number of tiles allows; the last may be lower.
struct TiledRows {
  const ProductJob& job;
  int64_t height;
  explicit TiledRows(const ProductJob& j) : job(j) {
    const int64_t tiles = (j.rows + kTileHeight - 1) / kTileHeight;
    height = (j.rows + tiles - 1) / tiles;
  }
};

struct TileBlock {
  const TiledStrip* w = nullptr;
  int64_t strip = 0, first = 0, column = 0;  ///< first row, first output
  int32_t* sums = nullptr;                   ///< [tiles of rows][TileUse::kSums][16][16]
};

template <typename C>
void multiply_block(const TiledRows& rows, const TileBlock& b) {
  const int8_t* a = rows.job.tiles->rows[b.first];
  if constexpr (!is_super(C::kForm)) {
    multiply_groups<C::kForm == Form::kCentred>(a, *b.w, inputs_at(rows.job, b.strip) / kGroup, b.sums);
  } else if (rows.job.rows - b.first > rows.height) {
    multiply_parts<C::kForm == Form::kSuper16, true>(a, rows.height, *b.w, b.sums);
  } else {
    multiply_parts<C::kForm == Form::kSuper16, false>(a, rows.height, *b.w, b.sums);
  }
}

/// The scales of a strip while its rows are finished, so far as registers can hold them.
template <typename C>
struct FinishGroups {
  const StripScales& w;
  int64_t groups;
  FinishGroups(const StripScales& scales, int64_t inputs) : w(scales), groups(inputs / kGroup) {}
  COLIBRI_INLINE F32x16 row(const ActivationStrip& x, const int32_t* sums) const {
    const I32x16 ones = broadcast_int(twice(1));
    F32x16 part = zero();
    for (int64_t g = 0; g < groups; ++g) {
      part = fma(to_float(load_ints(sums + g * kTileInts)), load(w.d[g]), part);
      if constexpr (C::kForm == Form::kMinimum)
        part = fma(to_float(dot2(zero_int(), ones, x.sums + 2 * g)), load(w.m[g]), part);
    }
    return part;
  }
};
template <typename C>
struct FinishParts {
  static constexpr bool kMinima = C::kForm != Form::kSuper16;
  static constexpr int kPairs = is_super32(C::kForm) ? kStripGroups / 2 : kStripGroups;
  F32x16 d, m;
  I32x16 pairs[kPairs];
  FinishParts(const StripScales& w, int64_t /*inputs*/) : d(load(w.d[0])) {
    if constexpr (kMinima) {
      m = load(w.m[0]);
      for (int g = 0; g < kPairs; ++g) pairs[g] = load_ints(w.pairs[g]);
    }
  }
  COLIBRI_INLINE F32x16 row(const ActivationStrip& x, const int32_t* sums) const {
    const I32x16 high = shift_left(load_ints(sums + kTileInts), UseOf<C>::kHighShift);
    const F32x16 part = mul(to_float(add(load_ints(sums), high)), d);
    if constexpr (!kMinima) return part;
    const int16_t* run_sums = is_super32(C::kForm) ? x.pair_sums : x.sums;
    I32x16 minima = zero_int();
    COLIBRI_UNROLL
    for (int g = 0; g < kPairs; ++g) minima = dot2(minima, pairs[g], run_sums + 2 * g);
    return negated_fma(to_float(minima), m, part);
  }
};
template <typename C, bool kSuper = is_super(C::kForm)>
struct FinishOf {
  using Type = FinishGroups<C>;
};
template <typename C>
struct FinishOf<C, true> {
  using Type = FinishParts<C>;
};

/// Adds the block to the sums so far, which wait in the output.
template <typename C>
void finish_block(const TiledRows& rows, const TileBlock& b) {
  const ProductJob& job = rows.job;
  const int64_t inputs = inputs_at(job, b.strip);
  const typename FinishOf<C>::Type finish(b.w->scales, inputs);
  const int64_t lanes = job.n - b.column < kLanes ? job.n - b.column : kLanes;
  const bool last = b.strip * kStripWidth + inputs == job.k, biased = last && job.bias != nullptr;
  const F32x16 bias = biased ? load_run(job.bias + b.column, lanes) : zero();
  for (int64_t tile = 0, r = b.first; tile < UseOf<C>::kRowTiles && r < job.rows; ++tile) {
    const int32_t* sums = b.sums + tile * UseOf<C>::kSums * kTileInts;
    for (const int64_t end = r + rows.height < job.rows ? r + rows.height : job.rows; r < end; ++r, sums += kLanes) {
      const ActivationStrip& x = job.x[r][b.strip];
      float* c = job.c + r * job.c_stride + b.column;
      const F32x16 y = fma(finish.row(x, sums), broadcast(x.scale), b.strip == 0 ? zero() : load_run(c, lanes));
      store_run(c, lanes, biased ? add(y, bias) : y);
    }
  }
}

// ---- products ----

/// The strip's activations side by side. What lies behind the last row is multiplied too, and never looked at.
void gather_rows(const ProductJob& job, int64_t strip) {
  for (int64_t r = 0; r < job.rows; ++r) {
    const auto* from = reinterpret_cast<const uint8_t*>(job.x[r][strip].q);
    auto* to = reinterpret_cast<uint8_t*>(job.tiles->rows[r]);
    for (int64_t i = 0; i < kStripWidth; i += kLine) store_line(to + i, load_line(from + i));
  }
}

template <typename C>
void multiply_strip_tiled(const TiledRows& rows, int64_t strip, const uint8_t* panel) {
  const ProductJob& job = rows.job;
  const int64_t inputs = inputs_at(job, strip);
  TiledStrip w[2];
  for (int i = 0; i < 2; ++i)
    for (int part = 0; part < 2; ++part) w[i].lines[part] = job.tiles->lines[i][part];
  gather_rows(job, strip);
  TileBlock last;
  int turn = 0;
  const int64_t block_rows = UseOf<C>::kRowTiles * rows.height, bytes = C::strip_bytes(inputs);
  for (int64_t column = 0; column < job.n; column += kLanes, panel += job.panel_stride) {
    TiledStrip* opened = &w[column / kLanes % 2];
    open_strip<C>(panel, inputs, opened);
    for (int64_t first = 0; first < job.rows; first += block_rows) {
      // The next panel arrives while the rows are multiplied, a part with every block.
      const int64_t part = whole_lines(bytes * block_rows / job.rows);
      prefetch_strip(panel + job.panel_stride + first / block_rows * part, part < bytes ? part : bytes);
      const TileBlock block{opened, strip, first, column, job.tiles->sums[turn ^= 1]};
      multiply_block<C>(rows, block);
      if (last.w != nullptr) finish_block<C>(rows, last);
      last = block;
    }
  }
  finish_block<C>(rows, last);
}

template <typename C>
void tiled_product(const ProductJob* job) {
  if (job->rows < kLeastTiledRows) return product<C>(job);
  const TiledRows rows(*job);
  tile_configure((UseOf<C>::kDepth == 64 ? kConfigs64 : kConfigs32).of_height[rows.height]);
  const auto* panel = static_cast<const uint8_t*>(job->panels);
  for (int64_t strip = 0; strip * kStripWidth < job->k; ++strip) {
    multiply_strip_tiled<C>(rows, strip, panel);
    panel += C::strip_bytes(inputs_at(*job, strip));
  }
  tile_release();
}

constexpr KernelTable with_tiles(KernelTable table) {
  constexpr decltype(KernelTable::product) products = {
      tiled_product<Q8_0>, tiled_product<Q4_0>,   tiled_product<Q4_1>,   tiled_product<Q5_0>,
      tiled_product<Q5_1>, tiled_product<MXFP4>,  tiled_product<Q4_K>,   tiled_product<Q5_K>,
      tiled_product<Q6_K>, tiled_product<IQ4_NL>, tiled_product<IQ4_XS>, tiled_product<Q2_K>,
      tiled_product<Q3_K>, tiled_product<Codes4>, tiled_product<Codes8>, expanded_product};
  for (int i = 0; i < kProducts; ++i) table.product[i] = products[i];
  return table;
}

}  // namespace
}  // namespace colibri::compute
