// The integer vectors as four SSE4.1 registers. See ints_scalar.h for what each function means.
#pragma once

#include <smmintrin.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/vec_sse4.h"

namespace colibri::compute {
namespace {

struct I32x16 {
  __m128i v[4];
};
struct U8x64 {
  __m128i v[4];
};

constexpr int kDotRows = COLIBRI_TILE_ROWS(2);
constexpr int kDirectRows = COLIBRI_TILE_ROWS(2);  // rows that multiply lines as they are decoded
constexpr int kDotPanels = 1;

COLIBRI_INLINE __m128i load_quarter(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
COLIBRI_INLINE void store_quarter(void* p, __m128i x) { _mm_storeu_si128(static_cast<__m128i*>(p), x); }
COLIBRI_INLINE __m128i load_four_bytes(const void* p) {
  int32_t bytes;
  memcpy(&bytes, p, sizeof bytes);
  return _mm_cvtsi32_si128(bytes);
}
COLIBRI_INLINE __m128i broadcast_four_bytes(const void* p) { return _mm_shuffle_epi32(load_four_bytes(p), 0); }

COLIBRI_INLINE I32x16 broadcast_int(int32_t x) {
  const __m128i v = _mm_set1_epi32(x);
  return {{v, v, v, v}};
}
COLIBRI_INLINE I32x16 zero_int() { return broadcast_int(0); }

// One register after the other: `expression` makes result.v[i].
#define COLIBRI_EACH(result, expression) \
  COLIBRI_UNROLL                         \
  for (int i = 0; i < 4; ++i) result.v[i] = expression

COLIBRI_INLINE I32x16 load_ints(const void* p) {
  I32x16 r;
  COLIBRI_EACH(r, load_quarter(static_cast<const char*>(p) + 16 * i));
  return r;
}
COLIBRI_INLINE void store_ints(void* p, I32x16 x) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) store_quarter(static_cast<char*>(p) + 16 * i, x.v[i]);
}
COLIBRI_INLINE I32x16 load_u8(const uint8_t* p) {
  I32x16 r;
  COLIBRI_EACH(r, _mm_cvtepu8_epi32(load_four_bytes(p + 4 * i)));
  return r;
}
COLIBRI_INLINE I32x16 load_s8(const uint8_t* p) {
  I32x16 r;
  COLIBRI_EACH(r, _mm_cvtepi8_epi32(load_four_bytes(p + 4 * i)));
  return r;
}
COLIBRI_INLINE I32x16 add(I32x16 a, I32x16 b) {
  COLIBRI_EACH(a, _mm_add_epi32(a.v[i], b.v[i]));
  return a;
}
COLIBRI_INLINE I32x16 mul(I32x16 a, I32x16 b) {
  COLIBRI_EACH(a, _mm_mullo_epi32(a.v[i], b.v[i]));
  return a;
}
COLIBRI_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  COLIBRI_EACH(a, _mm_and_si128(a.v[i], b.v[i]));
  return a;
}
COLIBRI_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  COLIBRI_EACH(a, _mm_or_si128(a.v[i], b.v[i]));
  return a;
}
COLIBRI_INLINE I32x16 bit_or_and(I32x16 a, I32x16 b, I32x16 mask) { return bit_or(a, bit_and(b, mask)); }
COLIBRI_INLINE I32x16 shift_left(I32x16 a, int n) {
  COLIBRI_EACH(a, _mm_slli_epi32(a.v[i], n));
  return a;
}
COLIBRI_INLINE I32x16 shift_right(I32x16 a, int n) {
  COLIBRI_EACH(a, _mm_srli_epi32(a.v[i], n));
  return a;
}
COLIBRI_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  COLIBRI_EACH(a, _mm_max_epi32(a.v[i], b.v[i]));
  return a;
}
COLIBRI_INLINE F32x16 to_float(I32x16 a) {
  F32x16 r;
  COLIBRI_EACH(r, _mm_cvtepi32_ps(a.v[i]));
  return r;
}
COLIBRI_INLINE I32x16 to_int(F32x16 x) {
  I32x16 r;
  COLIBRI_EACH(r, _mm_cvtps_epi32(x.v[i]));
  return r;
}
COLIBRI_INLINE I32x16 bits_of(F32x16 x) {
  I32x16 r;
  COLIBRI_EACH(r, _mm_castps_si128(x.v[i]));
  return r;
}
COLIBRI_INLINE F32x16 float_of_bits(I32x16 x) {
  F32x16 r;
  COLIBRI_EACH(r, _mm_castsi128_ps(x.v[i]));
  return r;
}
COLIBRI_INLINE void store_bytes(int8_t* p, I32x16 x) {
  store_quarter(p, _mm_packs_epi16(_mm_packs_epi32(x.v[0], x.v[1]), _mm_packs_epi32(x.v[2], x.v[3])));
}

COLIBRI_INLINE U8x64 load_line(const uint8_t* p) {
  U8x64 r;
  COLIBRI_EACH(r, load_quarter(p + 16 * i));
  return r;
}
COLIBRI_INLINE void store_line(uint8_t* p, U8x64 x) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) store_quarter(p + 16 * i, x.v[i]);
}
COLIBRI_INLINE U8x64 bits_from(U8x64 x, int n, int mask) {
  const __m128i ones = _mm_set1_epi8(static_cast<char>(mask));
  COLIBRI_EACH(x, _mm_and_si128(n == 0 ? x.v[i] : _mm_srli_epi16(x.v[i], n), ones));
  return x;
}
template <int kShift>
COLIBRI_INLINE U8x64 join_bits(U8x64 low, U8x64 high) {
  COLIBRI_EACH(low, _mm_or_si128(low.v[i], _mm_slli_epi16(high.v[i], kShift)));
  return low;
}
COLIBRI_INLINE U8x64 look_up(const uint8_t* table, U8x64 x) {
  const __m128i sixteen = load_quarter(table);
  COLIBRI_EACH(x, _mm_shuffle_epi8(sixteen, x.v[i]));
  return x;
}

// As in dots_avx2.h.
COLIBRI_INLINE __m128i dot4_small(__m128i sums, __m128i w, __m128i a) {
  return _mm_add_epi32(sums, _mm_madd_epi16(_mm_maddubs_epi16(w, a), _mm_set1_epi16(1)));
}
COLIBRI_INLINE __m128i dot4_large(__m128i sums, __m128i w, __m128i a) {
  const __m128i even = _mm_madd_epi16(_mm_and_si128(w, _mm_set1_epi16(0xff)), _mm_srai_epi16(_mm_slli_epi16(a, 8), 8));
  const __m128i odd = _mm_madd_epi16(_mm_srli_epi16(w, 8), _mm_srai_epi16(a, 8));
  return _mm_add_epi32(sums, _mm_add_epi32(even, odd));
}
COLIBRI_INLINE I32x16 sums_of_four(const int8_t* p) {
  I32x16 r;
  COLIBRI_EACH(r, dot4_small(_mm_setzero_si128(), _mm_set1_epi8(1), load_quarter(p + 16 * i)));
  return r;
}
template <bool kSmall>
COLIBRI_INLINE I32x16 dot4(I32x16 sums, U8x64 w, const int8_t* a) {
  const __m128i four = broadcast_four_bytes(a);
  COLIBRI_EACH(sums, kSmall ? dot4_small(sums.v[i], w.v[i], four) : dot4_large(sums.v[i], w.v[i], four));
  return sums;
}
COLIBRI_INLINE I32x16 dot2(I32x16 sums, I32x16 pairs, const int16_t* a) {
  const __m128i two = broadcast_four_bytes(a);
  COLIBRI_EACH(sums, _mm_add_epi32(sums.v[i], _mm_madd_epi16(pairs.v[i], two)));
  return sums;
}
#undef COLIBRI_EACH

}  // namespace
}  // namespace colibri::compute
