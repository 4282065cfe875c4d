// F32x16 as one AVX-512 register (F, BW, DQ, VL). See vec_scalar.h for what each function means.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

struct F32x16 {
  __m512 v;
};

// 32 registers: at most 24 hold sums, the others weights and broadcast activations.
constexpr int kTileRows = COLIBRI_TILE_ROWS(12);
constexpr int tile_panels(int rows) { return rows == 1 ? 8 : rows <= 6 ? 4 : 2; }

COLIBRI_INLINE __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

COLIBRI_INLINE F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
COLIBRI_INLINE F32x16 zero() { return {_mm512_setzero_ps()}; }
COLIBRI_INLINE F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
COLIBRI_INLINE void store(float* p, F32x16 x) { _mm512_storeu_ps(p, x.v); }
COLIBRI_INLINE F32x16 load_partial(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
COLIBRI_INLINE void store_partial(float* p, int64_t n, F32x16 x) { _mm512_mask_storeu_ps(p, first_lanes(n), x.v); }

COLIBRI_INLINE F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
COLIBRI_INLINE F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
COLIBRI_INLINE F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
COLIBRI_INLINE F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
COLIBRI_INLINE F32x16 square_root(F32x16 a) { return {_mm512_maskz_sqrt_ps(0xffff, a.v)}; }
COLIBRI_INLINE F32x16 maximum(F32x16 a, F32x16 b) { return {_mm512_maskz_max_ps(0xffff, a.v, b.v)}; }
COLIBRI_INLINE F32x16 minimum(F32x16 a, F32x16 b) { return {_mm512_maskz_min_ps(0xffff, a.v, b.v)}; }
COLIBRI_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
COLIBRI_INLINE F32x16 negated_fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
COLIBRI_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
COLIBRI_INLINE float first_lane(F32x16 x) { return _mm512_cvtss_f32(x.v); }
template <int kDistance>
COLIBRI_INLINE F32x16 swap_lanes(F32x16 x) {
  if constexpr (kDistance == 8) return {_mm512_maskz_shuffle_f32x4(0xffff, x.v, x.v, 0x4e)};
  if constexpr (kDistance == 4) return {_mm512_maskz_shuffle_f32x4(0xffff, x.v, x.v, 0xb1)};
  return {_mm512_maskz_permute_ps(0xffff, x.v, kDistance == 2 ? 0x4e : 0xb1)};
}
COLIBRI_INLINE F32x16 scale_by_power(F32x16 x, F32x16 t) {
  const __m512i exponent = _mm512_maskz_slli_epi32(0xffff, _mm512_castps_si512(t.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), exponent))};
}

COLIBRI_INLINE F32x16 load_bf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, half), 16))};
}
COLIBRI_INLINE F32x16 load_f16(const uint16_t* p) {
  return {_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
COLIBRI_INLINE F32x16 load_i8(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes))};
}

struct Lanes {
  __mmask16 v;
};
COLIBRI_INLINE Lanes above(F32x16 a, F32x16 b) {
  return {_mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(a.v, a.v, _CMP_ORD_Q), a.v, b.v, _CMP_NLE_UQ)};
}
COLIBRI_INLINE F32x16 select(Lanes which, F32x16 x, F32x16 y) { return {_mm512_mask_blend_ps(which.v, y.v, x.v)}; }
COLIBRI_INLINE void store_integers(int32_t* p, F32x16 x) {
  _mm512_storeu_si512(p, _mm512_maskz_cvttps_epi32(0xffff, x.v));
}
COLIBRI_INLINE bool any(Lanes lanes) { return lanes.v != 0; }
/// Four numbers of rows i, i + 4, i + 8 and i + 12. Masked broadcasts from memory leave the shuffle port to the
/// transposition.
COLIBRI_INLINE __m512 load_four_rows(const float* const* rows, int i, int64_t first) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(rows[i] + first));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(rows[i + 4] + first));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(rows[i + 8] + first));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(rows[i + 12] + first));
}
/// 4x4 blocks, each transposed within its quarter of the registers.
COLIBRI_INLINE void load_columns(const float* const* rows, int64_t first, F32x16* column) {
  const __m512 a = load_four_rows(rows, 0, first), b = load_four_rows(rows, 1, first);
  const __m512 c = load_four_rows(rows, 2, first), d = load_four_rows(rows, 3, first);
  const __m512 ab_lo = _mm512_maskz_unpacklo_ps(0xffff, a, b), ab_hi = _mm512_maskz_unpackhi_ps(0xffff, a, b);
  const __m512 cd_lo = _mm512_maskz_unpacklo_ps(0xffff, c, d), cd_hi = _mm512_maskz_unpackhi_ps(0xffff, c, d);
  column[0].v = _mm512_maskz_shuffle_ps(0xffff, ab_lo, cd_lo, 0x44);
  column[1].v = _mm512_maskz_shuffle_ps(0xffff, ab_lo, cd_lo, 0xee);
  column[2].v = _mm512_maskz_shuffle_ps(0xffff, ab_hi, cd_hi, 0x44);
  column[3].v = _mm512_maskz_shuffle_ps(0xffff, ab_hi, cd_hi, 0xee);
}

COLIBRI_INLINE void store_f16(uint16_t* p, F32x16 x) {
  const __m256i half = _mm512_maskz_cvtps_ph(0xffff, x.v, _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
}
COLIBRI_INLINE void store_i8(int8_t* p, F32x16 x) {
  const __m512i n = _mm512_maskz_cvtps_epi32(0xffff, x.v);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtsepi32_epi8(0xffff, n));
}

}  // namespace
}  // namespace colibri::compute
