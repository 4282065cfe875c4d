// The integer vectors as AVX-512 registers, with VNNI. See ints_scalar.h for what each function means.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/vec_avx512.h"

namespace colibri::compute {
namespace {

struct I32x16 {
  __m512i v;
};
struct U8x64 {
  __m512i v;
};

// 12 dot products and 12 partial sums of the 32 registers.
constexpr int kDotRows = COLIBRI_TILE_ROWS(6);
constexpr int kDirectRows = COLIBRI_TILE_ROWS(4);  // rows that multiply lines as they are decoded
constexpr int kDotPanels = 2;

COLIBRI_INLINE I32x16 broadcast_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
COLIBRI_INLINE I32x16 zero_int() { return {_mm512_setzero_si512()}; }
COLIBRI_INLINE I32x16 load_ints(const void* p) { return {_mm512_loadu_si512(p)}; }
COLIBRI_INLINE void store_ints(void* p, I32x16 x) { _mm512_storeu_si512(p, x.v); }
COLIBRI_INLINE I32x16 load_u8(const uint8_t* p) {
  return {_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
COLIBRI_INLINE I32x16 load_s8(const uint8_t* p) {
  return {_mm512_maskz_cvtepi8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
COLIBRI_INLINE I32x16 add(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
COLIBRI_INLINE I32x16 mul(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
COLIBRI_INLINE I32x16 bit_and(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
COLIBRI_INLINE I32x16 bit_or(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
COLIBRI_INLINE I32x16 bit_or_and(I32x16 a, I32x16 b, I32x16 mask) {
  return {_mm512_ternarylogic_epi32(a.v, b.v, mask.v, 0xf8)};
}
COLIBRI_INLINE I32x16 shift_left(I32x16 a, int n) {
  return {_mm512_maskz_slli_epi32(0xffff, a.v, static_cast<unsigned>(n))};
}
COLIBRI_INLINE I32x16 shift_right(I32x16 a, int n) {
  return {_mm512_maskz_srli_epi32(0xffff, a.v, static_cast<unsigned>(n))};
}
COLIBRI_INLINE I32x16 larger(I32x16 a, I32x16 b) { return {_mm512_maskz_max_epi32(0xffff, a.v, b.v)}; }
COLIBRI_INLINE F32x16 to_float(I32x16 a) { return {_mm512_maskz_cvtepi32_ps(0xffff, a.v)}; }
COLIBRI_INLINE I32x16 to_int(F32x16 x) { return {_mm512_maskz_cvtps_epi32(0xffff, x.v)}; }
COLIBRI_INLINE I32x16 bits_of(F32x16 x) { return {_mm512_castps_si512(x.v)}; }
COLIBRI_INLINE F32x16 float_of_bits(I32x16 x) { return {_mm512_castsi512_ps(x.v)}; }
COLIBRI_INLINE void store_bytes(int8_t* p, I32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(0xffff, x.v));
}

COLIBRI_INLINE U8x64 load_line(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
COLIBRI_INLINE void store_line(uint8_t* p, U8x64 x) { _mm512_storeu_si512(p, x.v); }
COLIBRI_INLINE U8x64 bits_from(U8x64 x, int n, int mask) {
  const __m512i shifted = n == 0 ? x.v : _mm512_srli_epi16(x.v, static_cast<unsigned>(n));
  return {_mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>(mask)))};
}
template <int kShift>
COLIBRI_INLINE U8x64 join_bits(U8x64 low, U8x64 high) {
  return {_mm512_or_si512(low.v, _mm512_slli_epi16(high.v, kShift))};
}
COLIBRI_INLINE U8x64 look_up(const uint8_t* table, U8x64 x) {
  const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm512_shuffle_epi8(_mm512_maskz_broadcast_i32x4(0xffff, sixteen), x.v)};
}

COLIBRI_INLINE __m512i broadcast_four_bytes(const void* p) {
  int32_t bytes;
  memcpy(&bytes, p, sizeof bytes);
  return _mm512_set1_epi32(bytes);
}
COLIBRI_INLINE I32x16 sums_of_four(const int8_t* p) {
  return {_mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), _mm512_loadu_si512(p))};
}
template <bool kSmall>
COLIBRI_INLINE I32x16 dot4(I32x16 sums, U8x64 w, const int8_t* a) {
  return {_mm512_dpbusd_epi32(sums.v, w.v, broadcast_four_bytes(a))};
}
COLIBRI_INLINE I32x16 dot2(I32x16 sums, I32x16 pairs, const int16_t* a) {
  return {_mm512_dpwssd_epi32(sums.v, pairs.v, broadcast_four_bytes(a))};
}

}  // namespace
}  // namespace colibri::compute
