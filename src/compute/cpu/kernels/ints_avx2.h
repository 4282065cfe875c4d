// The integer vectors as pairs of AVX2 registers. See ints_scalar.h for what each function means. The dot products
// stand in dots_avx2.h and dots_avxvnni.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/vec_avx2.h"

namespace colibri::compute {
namespace {

struct I32x16 {
  __m256i lo, hi;
};
struct U8x64 {
  __m256i lo, hi;
};

COLIBRI_INLINE __m256i load_half(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
COLIBRI_INLINE void store_half(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }

COLIBRI_INLINE I32x16 broadcast_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
COLIBRI_INLINE I32x16 zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
COLIBRI_INLINE I32x16 load_ints(const void* p) { return {load_half(p), load_half(static_cast<const char*>(p) + 32)}; }
COLIBRI_INLINE void store_ints(void* p, I32x16 x) {
  store_half(p, x.lo);
  store_half(static_cast<char*>(p) + 32, x.hi);
}
COLIBRI_INLINE __m128i load_eight_bytes(const uint8_t* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
COLIBRI_INLINE I32x16 load_u8(const uint8_t* p) {
  return {_mm256_cvtepu8_epi32(load_eight_bytes(p)), _mm256_cvtepu8_epi32(load_eight_bytes(p + 8))};
}
COLIBRI_INLINE I32x16 load_s8(const uint8_t* p) {
  return {_mm256_cvtepi8_epi32(load_eight_bytes(p)), _mm256_cvtepi8_epi32(load_eight_bytes(p + 8))};
}
COLIBRI_INLINE I32x16 add(I32x16 a, I32x16 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
COLIBRI_INLINE I32x16 mul(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
COLIBRI_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
COLIBRI_INLINE I32x16 bit_or(I32x16 a, I32x16 b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
COLIBRI_INLINE I32x16 bit_or_and(I32x16 a, I32x16 b, I32x16 mask) { return bit_or(a, bit_and(b, mask)); }
COLIBRI_INLINE I32x16 shift_left(I32x16 a, int n) { return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)}; }
COLIBRI_INLINE I32x16 shift_right(I32x16 a, int n) { return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)}; }
COLIBRI_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}
COLIBRI_INLINE F32x16 to_float(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
COLIBRI_INLINE I32x16 to_int(F32x16 x) { return {_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi)}; }
COLIBRI_INLINE I32x16 bits_of(F32x16 x) { return {_mm256_castps_si256(x.lo), _mm256_castps_si256(x.hi)}; }
COLIBRI_INLINE F32x16 float_of_bits(I32x16 x) { return {_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi)}; }
COLIBRI_INLINE void store_bytes(int8_t* p, I32x16 x) {
  const __m256i words = _mm256_packs_epi32(x.lo, x.hi);  // 0-3, 8-11 | 4-7, 12-15
  const __m256i bytes = _mm256_packs_epi16(words, words);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order)));
}

COLIBRI_INLINE U8x64 load_line(const uint8_t* p) { return {load_half(p), load_half(p + 32)}; }
COLIBRI_INLINE void store_line(uint8_t* p, U8x64 x) {
  store_half(p, x.lo);
  store_half(p + 32, x.hi);
}
COLIBRI_INLINE U8x64 bits_from(U8x64 x, int n, int mask) {
  const __m256i ones = _mm256_set1_epi8(static_cast<char>(mask));
  if (n == 0) return {_mm256_and_si256(x.lo, ones), _mm256_and_si256(x.hi, ones)};
  return {_mm256_and_si256(_mm256_srli_epi16(x.lo, n), ones), _mm256_and_si256(_mm256_srli_epi16(x.hi, n), ones)};
}
template <int kShift>
COLIBRI_INLINE U8x64 join_bits(U8x64 low, U8x64 high) {
  return {_mm256_or_si256(low.lo, _mm256_slli_epi16(high.lo, kShift)),
          _mm256_or_si256(low.hi, _mm256_slli_epi16(high.hi, kShift))};
}
COLIBRI_INLINE U8x64 look_up(const uint8_t* table, U8x64 x) {
  const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return {_mm256_shuffle_epi8(twice, x.lo), _mm256_shuffle_epi8(twice, x.hi)};
}
COLIBRI_INLINE __m256i broadcast_four_bytes(const void* p) {
  int32_t bytes;
  memcpy(&bytes, p, sizeof bytes);
  return _mm256_set1_epi32(bytes);
}

}  // namespace
}  // namespace colibri::compute
