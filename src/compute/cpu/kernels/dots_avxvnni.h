// The dot products of AVX-VNNI.
#pragma once

#include "compute/cpu/kernels/ints_avx2.h"

namespace colibri::compute {
namespace {

// A dot product and a partial sum take two registers each: 12 of the 16.
constexpr int kDotRows = COLIBRI_TILE_ROWS(3);
constexpr int kDirectRows = COLIBRI_TILE_ROWS(2);  // rows that multiply lines as they are decoded
constexpr int kDotPanels = 1;

COLIBRI_INLINE I32x16 sums_of_four(const int8_t* p) {
  const __m256i ones = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
  return {_mm256_dpbusd_avx_epi32(zero, ones, load_half(p)), _mm256_dpbusd_avx_epi32(zero, ones, load_half(p + 32))};
}
template <bool kSmall>
COLIBRI_INLINE I32x16 dot4(I32x16 sums, U8x64 w, const int8_t* a) {
  const __m256i four = broadcast_four_bytes(a);
  return {_mm256_dpbusd_avx_epi32(sums.lo, w.lo, four), _mm256_dpbusd_avx_epi32(sums.hi, w.hi, four)};
}
COLIBRI_INLINE I32x16 dot2(I32x16 sums, I32x16 pairs, const int16_t* a) {
  const __m256i two = broadcast_four_bytes(a);
  return {_mm256_dpwssd_avx_epi32(sums.lo, pairs.lo, two), _mm256_dpwssd_avx_epi32(sums.hi, pairs.hi, two)};
}

}  // namespace
}  // namespace colibri::compute
