// The dot products without VNNI: products of bytes are added in pairs of 16 bits, or, where two of them could exceed
// that, multiplied as 16-bit numbers.
#pragma once

#include "compute/cpu/kernels/ints_avx2.h"

namespace colibri::compute {
namespace {

constexpr int kDotRows = COLIBRI_TILE_ROWS(2);
constexpr int kDirectRows = COLIBRI_TILE_ROWS(2);  // rows that multiply lines as they are decoded
constexpr int kDotPanels = 1;

COLIBRI_INLINE __m256i dot4_small(__m256i sums, __m256i w, __m256i a) {
  const __m256i pairs = _mm256_maddubs_epi16(w, a);
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
COLIBRI_INLINE __m256i dot4_large(__m256i sums, __m256i w, __m256i a) {
  const __m256i even =
      _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(0xff)), _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(a, 8));
  return _mm256_add_epi32(sums, _mm256_add_epi32(even, odd));
}
COLIBRI_INLINE I32x16 sums_of_four(const int8_t* p) {
  const __m256i ones = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
  return {dot4_small(zero, ones, load_half(p)), dot4_small(zero, ones, load_half(p + 32))};
}
template <bool kSmall>
COLIBRI_INLINE I32x16 dot4(I32x16 sums, U8x64 w, const int8_t* a) {
  const __m256i four = broadcast_four_bytes(a);
  if constexpr (kSmall) return {dot4_small(sums.lo, w.lo, four), dot4_small(sums.hi, w.hi, four)};
  return {dot4_large(sums.lo, w.lo, four), dot4_large(sums.hi, w.hi, four)};
}
COLIBRI_INLINE I32x16 dot2(I32x16 sums, I32x16 pairs, const int16_t* a) {
  const __m256i two = broadcast_four_bytes(a);
  return {_mm256_add_epi32(sums.lo, _mm256_madd_epi16(pairs.lo, two)),
          _mm256_add_epi32(sums.hi, _mm256_madd_epi16(pairs.hi, two))};
}

}  // namespace
}  // namespace colibri::compute
