// F32x16 as four SSE4.1 registers. There is no fused multiply-add, so it is computed in double and rounded once.
// See vec_scalar.h for what each function means.
#pragma once

#include <smmintrin.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

struct F32x16 {
  __m128 v[4];
};

constexpr int kTileRows = COLIBRI_TILE_ROWS(4);
constexpr int tile_panels(int /*rows*/) { return 1; }

COLIBRI_INLINE F32x16 broadcast(float x) {
  const __m128 v = _mm_set1_ps(x);
  return {{v, v, v, v}};
}
COLIBRI_INLINE F32x16 zero() { return broadcast(0.0f); }
COLIBRI_INLINE F32x16 load(const float* p) {
  return {{_mm_loadu_ps(p), _mm_loadu_ps(p + 4), _mm_loadu_ps(p + 8), _mm_loadu_ps(p + 12)}};
}
COLIBRI_INLINE void store(float* p, F32x16 x) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) _mm_storeu_ps(p + 4 * i, x.v[i]);
}
COLIBRI_INLINE F32x16 load_partial(const float* p, int64_t n) {
  float lanes[16] = {};
  memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return load(lanes);
}
COLIBRI_INLINE void store_partial(float* p, int64_t n, F32x16 x) {
  float lanes[16];
  store(lanes, x);
  memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}

#define COLIBRI_EACH(name, expression)               \
  COLIBRI_INLINE F32x16 name(F32x16 a, F32x16 b) {   \
    COLIBRI_UNROLL                                   \
    for (int i = 0; i < 4; ++i) a.v[i] = expression; \
    return a;                                        \
  }
COLIBRI_EACH(add, _mm_add_ps(a.v[i], b.v[i]))
COLIBRI_EACH(sub, _mm_sub_ps(a.v[i], b.v[i]))
COLIBRI_EACH(mul, _mm_mul_ps(a.v[i], b.v[i]))
COLIBRI_EACH(div, _mm_div_ps(a.v[i], b.v[i]))
COLIBRI_EACH(maximum, _mm_max_ps(a.v[i], b.v[i]))
COLIBRI_EACH(minimum, _mm_min_ps(a.v[i], b.v[i]))
#undef COLIBRI_EACH

COLIBRI_INLINE F32x16 square_root(F32x16 a) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) a.v[i] = _mm_sqrt_ps(a.v[i]);
  return a;
}

/// a * b + c of floats held as doubles, rounded to odd: converting the result to float then rounds like the exact sum.
/// The product of two floats is exact in double; two_sum gives the sum's rounding error; an inexact even result steps
/// to its odd neighbour on the error's side. Infinities and NaN have a NaN error, which compares false, and stay.
COLIBRI_INLINE __m128d fma_to_odd(__m128d a, __m128d b, __m128d c) {
  const __m128d p = _mm_mul_pd(a, b);
  const __m128d s = _mm_add_pd(p, c);
  const __m128d part = _mm_sub_pd(s, p);
  const __m128d error = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(s, part)), _mm_sub_pd(c, part));
  const __m128d magnitude = _mm_andnot_pd(_mm_set1_pd(-0.0), error);
  const __m128i inexact = _mm_castpd_si128(_mm_cmplt_pd(_mm_setzero_pd(), magnitude));
  const __m128i towards_zero = _mm_srli_epi64(_mm_castpd_si128(_mm_xor_pd(s, error)), 63);
  const __m128i bits = _mm_sub_epi64(_mm_castpd_si128(s), _mm_and_si128(towards_zero, inexact));
  return _mm_castsi128_pd(_mm_or_si128(bits, _mm_srli_epi64(inexact, 63)));
}
COLIBRI_INLINE __m128d upper_doubles(__m128 x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }
COLIBRI_INLINE __m128 fma(__m128 a, __m128 b, __m128 c) {
  const __m128d lo = fma_to_odd(_mm_cvtps_pd(a), _mm_cvtps_pd(b), _mm_cvtps_pd(c));
  const __m128d hi = fma_to_odd(upper_doubles(a), upper_doubles(b), upper_doubles(c));
  return _mm_movelh_ps(_mm_cvtpd_ps(lo), _mm_cvtpd_ps(hi));
}
COLIBRI_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) c.v[i] = fma(a.v[i], b.v[i], c.v[i]);
  return c;
}

COLIBRI_INLINE F32x16 negated_fma(F32x16 a, F32x16 b, F32x16 c) { return fma(sub(zero(), a), b, c); }

COLIBRI_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) y.v[i] = _mm_blendv_ps(y.v[i], x.v[i], _mm_cmplt_ps(a.v[i], b.v[i]));
  return y;
}
COLIBRI_INLINE float first_lane(F32x16 x) { return _mm_cvtss_f32(x.v[0]); }
template <int kDistance>
COLIBRI_INLINE F32x16 swap_lanes(F32x16 x) {
  F32x16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m128 v = kDistance >= 4 ? x.v[i ^ (kDistance / 4)] : x.v[i];
    r.v[i] = kDistance >= 4 ? v : _mm_shuffle_ps(v, v, kDistance == 2 ? 0x4e : 0xb1);
  }
  return r;
}
COLIBRI_INLINE F32x16 scale_by_power(F32x16 x, F32x16 t) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m128i exponent = _mm_slli_epi32(_mm_castps_si128(t.v[i]), 23);
    x.v[i] = _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(x.v[i]), exponent));
  }
  return x;
}

COLIBRI_INLINE __m128i load_four(const uint16_t* p) {
  return _mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
COLIBRI_INLINE F32x16 load_bf16(const uint16_t* p) {
  F32x16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) r.v[i] = _mm_castsi128_ps(_mm_slli_epi32(load_four(p + 4 * i), 16));
  return r;
}
/// As in vec_scalar.h: the shifted bits are the value times 2^-112; infinity and NaN get their exponent by hand.
COLIBRI_INLINE __m128 from_f16(__m128i half) {
  const __m128i magnitude = _mm_and_si128(half, _mm_set1_epi32(0x7fff));
  const __m128 scaled = _mm_mul_ps(_mm_castsi128_ps(_mm_slli_epi32(magnitude, 13)), _mm_set1_ps(0x1p112f));
  const __m128i special = _mm_and_si128(_mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7bff)), _mm_set1_epi32(0x7f800000));
  const __m128i sign = _mm_slli_epi32(_mm_and_si128(half, _mm_set1_epi32(0x8000)), 16);
  return _mm_castsi128_ps(_mm_or_si128(_mm_or_si128(_mm_castps_si128(scaled), special), sign));
}
COLIBRI_INLINE F32x16 load_f16(const uint16_t* p) {
  F32x16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) r.v[i] = from_f16(load_four(p + 4 * i));
  return r;
}
COLIBRI_INLINE F32x16 load_i8(const int8_t* p) {
  F32x16 r;
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) {
    int32_t four;
    memcpy(&four, p + 4 * i, 4);
    r.v[i] = _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
  }
  return r;
}

struct Lanes {
  __m128 v[4];
};
COLIBRI_INLINE Lanes above(F32x16 a, F32x16 b) {
  Lanes r;
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) r.v[i] = _mm_and_ps(_mm_cmpord_ps(a.v[i], a.v[i]), _mm_cmpnle_ps(a.v[i], b.v[i]));
  return r;
}
COLIBRI_INLINE F32x16 select(Lanes which, F32x16 x, F32x16 y) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) y.v[i] = _mm_blendv_ps(y.v[i], x.v[i], which.v[i]);
  return y;
}
COLIBRI_INLINE void store_integers(int32_t* p, F32x16 x) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 4 * i), _mm_cvttps_epi32(x.v[i]));
}
COLIBRI_INLINE bool any(Lanes lanes) {
  return _mm_movemask_ps(_mm_or_ps(_mm_or_ps(lanes.v[0], lanes.v[1]), _mm_or_ps(lanes.v[2], lanes.v[3]))) != 0;
}
COLIBRI_INLINE void load_columns(const float* const* rows, int64_t first, F32x16* column) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float* const* four = rows + 4 * i;
    const __m128 a = _mm_loadu_ps(four[0] + first), b = _mm_loadu_ps(four[1] + first);
    const __m128 c = _mm_loadu_ps(four[2] + first), d = _mm_loadu_ps(four[3] + first);
    const __m128 ab_lo = _mm_unpacklo_ps(a, b), ab_hi = _mm_unpackhi_ps(a, b);  // a0 b0 a1 b1, a2 b2 a3 b3
    const __m128 cd_lo = _mm_unpacklo_ps(c, d), cd_hi = _mm_unpackhi_ps(c, d);
    column[0].v[i] = _mm_movelh_ps(ab_lo, cd_lo);
    column[1].v[i] = _mm_movehl_ps(cd_lo, ab_lo);
    column[2].v[i] = _mm_movelh_ps(ab_hi, cd_hi);
    column[3].v[i] = _mm_movehl_ps(cd_hi, ab_hi);
  }
}

/// As in vec_scalar.h.
COLIBRI_INLINE __m128i to_f16(__m128 x) {
  const __m128i bits = _mm_castps_si128(x), magnitude = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
  const __m128i shifted = _mm_srli_epi32(magnitude, 13);
  const __m128i odd = _mm_and_si128(shifted, _mm_set1_epi32(1));
  const __m128i rounding = _mm_add_epi32(odd, _mm_set1_epi32(0xfff - (112 << 23)));
  const __m128i normal = _mm_srli_epi32(_mm_add_epi32(magnitude, rounding), 13);
  const __m128 small = _mm_add_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0.5f));
  const __m128i subnormal = _mm_sub_epi32(_mm_castps_si128(small), _mm_set1_epi32(0x3f000000));
  const __m128i nan = _mm_or_si128(_mm_set1_epi32(0x7e00), _mm_and_si128(shifted, _mm_set1_epi32(0x3ff)));
  __m128i half = _mm_blendv_epi8(normal, subnormal, _mm_cmpgt_epi32(_mm_set1_epi32(0x38800000), magnitude));
  half = _mm_blendv_epi8(half, nan, _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7f800000)));
  return _mm_or_si128(half, _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(0x8000)));
}
COLIBRI_INLINE void store_f16(uint16_t* p, F32x16 x) {
  COLIBRI_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const __m128i eight = _mm_packus_epi32(to_f16(x.v[i]), to_f16(x.v[i + 1]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 4 * i), eight);
  }
}
COLIBRI_INLINE void store_i8(int8_t* p, F32x16 x) {
  const __m128i lo = _mm_packs_epi32(_mm_cvtps_epi32(x.v[0]), _mm_cvtps_epi32(x.v[1]));
  const __m128i hi = _mm_packs_epi32(_mm_cvtps_epi32(x.v[2]), _mm_cvtps_epi32(x.v[3]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(lo, hi));
}

}  // namespace
}  // namespace colibri::compute
