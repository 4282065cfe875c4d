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

}  // namespace
}  // namespace colibri::compute
