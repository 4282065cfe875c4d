// F32x16 as two AVX2 registers, with FMA and F16C. See vec_scalar.h for what each function means.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

struct F32x16 {
  __m256 lo, hi;
};

// 16 registers: 12 hold sums, the others weights and a broadcast activation.
constexpr int kTileRows = COLIBRI_TILE_ROWS(6);
constexpr int tile_panels(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

COLIBRI_INLINE F32x16 broadcast(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
COLIBRI_INLINE F32x16 zero() { return broadcast(0.0f); }
COLIBRI_INLINE F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
COLIBRI_INLINE void store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}

/// All bits set in the lanes below n.
COLIBRI_INLINE __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
COLIBRI_INLINE F32x16 load_partial(const float* p, int64_t n) {
  if (n <= 8) return {_mm256_maskload_ps(p, first_lanes(n)), _mm256_setzero_ps()};
  return {_mm256_loadu_ps(p), _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}
COLIBRI_INLINE void store_partial(float* p, int64_t n, F32x16 x) {
  _mm256_maskstore_ps(p, first_lanes(n), x.lo);
  if (n > 8) _mm256_maskstore_ps(p + 8, first_lanes(n - 8), x.hi);
}

COLIBRI_INLINE F32x16 add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 square_root(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
COLIBRI_INLINE F32x16 maximum(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 minimum(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

COLIBRI_INLINE F32x16 negated_fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}

COLIBRI_INLINE __m256 select_less(__m256 a, __m256 b, __m256 x, __m256 y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
COLIBRI_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {select_less(a.lo, b.lo, x.lo, y.lo), select_less(a.hi, b.hi, x.hi, y.hi)};
}
COLIBRI_INLINE float first_lane(F32x16 x) { return _mm256_cvtss_f32(x.lo); }
template <int kDistance>
COLIBRI_INLINE __m256 swap_lanes(__m256 x) {
  if constexpr (kDistance == 4) return _mm256_permute2f128_ps(x, x, 1);
  return _mm256_permute_ps(x, kDistance == 2 ? 0x4e : 0xb1);
}
template <int kDistance>
COLIBRI_INLINE F32x16 swap_lanes(F32x16 x) {
  if constexpr (kDistance == 8) return {x.hi, x.lo};
  return {swap_lanes<kDistance>(x.lo), swap_lanes<kDistance>(x.hi)};
}
COLIBRI_INLINE __m256 scale_by_power(__m256 x, __m256 t) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}
COLIBRI_INLINE F32x16 scale_by_power(F32x16 x, F32x16 t) {
  return {scale_by_power(x.lo, t.lo), scale_by_power(x.hi, t.hi)};
}

COLIBRI_INLINE __m128i load_eight(const uint16_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
COLIBRI_INLINE __m256 from_bf16(__m128i h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
COLIBRI_INLINE F32x16 load_bf16(const uint16_t* p) { return {from_bf16(load_eight(p)), from_bf16(load_eight(p + 8))}; }
COLIBRI_INLINE F32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_eight(p)), _mm256_cvtph_ps(load_eight(p + 8))};
}
COLIBRI_INLINE __m256 from_i8(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
COLIBRI_INLINE F32x16 load_i8(const int8_t* p) { return {from_i8(p), from_i8(p + 8)}; }

struct Lanes {
  __m256 lo, hi;
};
COLIBRI_INLINE __m256 above(__m256 a, __m256 b) {
  return _mm256_and_ps(_mm256_cmp_ps(a, a, _CMP_ORD_Q), _mm256_cmp_ps(a, b, _CMP_NLE_UQ));
}
COLIBRI_INLINE Lanes above(F32x16 a, F32x16 b) { return {above(a.lo, b.lo), above(a.hi, b.hi)}; }
COLIBRI_INLINE F32x16 select(Lanes which, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, which.lo), _mm256_blendv_ps(y.hi, x.hi, which.hi)};
}
COLIBRI_INLINE void store_integers(int32_t* p, F32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_cvttps_epi32(x.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), _mm256_cvttps_epi32(x.hi));
}
COLIBRI_INLINE bool any(Lanes lanes) { return _mm256_movemask_ps(_mm256_or_ps(lanes.lo, lanes.hi)) != 0; }
/// Four numbers of rows[i] below, of rows[i + 4] above.
COLIBRI_INLINE __m256 load_two_rows(const float* const* rows, int i, int64_t first) {
  const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(rows[i] + first));
  return _mm256_insertf128_ps(low, _mm_loadu_ps(rows[i + 4] + first), 1);
}
/// Eight rows as 4x4 blocks, each transposed within its half of the registers.
COLIBRI_INLINE void load_columns(const float* const* rows, int64_t first, __m256* c0, __m256* c1, __m256* c2,
                                 __m256* c3) {
  const __m256 a = load_two_rows(rows, 0, first), b = load_two_rows(rows, 1, first);
  const __m256 c = load_two_rows(rows, 2, first), d = load_two_rows(rows, 3, first);
  const __m256 ab_lo = _mm256_unpacklo_ps(a, b), ab_hi = _mm256_unpackhi_ps(a, b);  // a0 b0 a1 b1, a2 b2 a3 b3
  const __m256 cd_lo = _mm256_unpacklo_ps(c, d), cd_hi = _mm256_unpackhi_ps(c, d);
  *c0 = _mm256_shuffle_ps(ab_lo, cd_lo, 0x44);
  *c1 = _mm256_shuffle_ps(ab_lo, cd_lo, 0xee);
  *c2 = _mm256_shuffle_ps(ab_hi, cd_hi, 0x44);
  *c3 = _mm256_shuffle_ps(ab_hi, cd_hi, 0xee);
}
COLIBRI_INLINE void load_columns(const float* const* rows, int64_t first, F32x16* column) {
  load_columns(rows, first, &column[0].lo, &column[1].lo, &column[2].lo, &column[3].lo);
  load_columns(rows + 8, first, &column[0].hi, &column[1].hi, &column[2].hi, &column[3].hi);
}

COLIBRI_INLINE void store_f16(uint16_t* p, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT));
}
COLIBRI_INLINE __m128i to_i16(__m256 x) {
  const __m256i n = _mm256_cvtps_epi32(x);
  return _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
}
COLIBRI_INLINE void store_i8(int8_t* p, F32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(to_i16(x.lo), to_i16(x.hi)));
}

}  // namespace
}  // namespace colibri::compute
