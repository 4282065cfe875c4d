// F32x16 in plain C: the definition of what every level computes. Needs nothing from the CPU.
//
// All vec_*.h offer the same functions. maximum(a, b) is a > b ? a : b (so b when either is NaN); conversions are
// exact; fma rounds once, also for subnormals.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

struct F32x16 {
  float v[16];
};

constexpr int kTileRows = COLIBRI_TILE_ROWS(4);
constexpr int tile_panels(int /*rows*/) { return 1; }

COLIBRI_INLINE F32x16 broadcast(float x) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = x;
  return r;
}
COLIBRI_INLINE F32x16 zero() { return broadcast(0.0f); }

COLIBRI_INLINE F32x16 load(const float* p) {
  F32x16 r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
COLIBRI_INLINE void store(float* p, F32x16 x) { memcpy(p, x.v, sizeof x.v); }

/// The first n of 16 lanes; the others are 0.
COLIBRI_INLINE F32x16 load_partial(const float* p, int64_t n) {
  F32x16 r = zero();
  for (int64_t i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
COLIBRI_INLINE void store_partial(float* p, int64_t n, F32x16 x) {
  for (int64_t i = 0; i < n; ++i) p[i] = x.v[i];
}

COLIBRI_INLINE F32x16 add(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
COLIBRI_INLINE F32x16 sub(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] -= b.v[i];
  return a;
}
COLIBRI_INLINE F32x16 mul(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] *= b.v[i];
  return a;
}
COLIBRI_INLINE F32x16 div(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] /= b.v[i];
  return a;
}
COLIBRI_INLINE F32x16 square_root(F32x16 a) {
  for (int i = 0; i < 16; ++i) a.v[i] = sqrtf(a.v[i]);
  return a;
}
COLIBRI_INLINE F32x16 maximum(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
COLIBRI_INLINE F32x16 minimum(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
  return a;
}
/// a * b + c, rounded once.
COLIBRI_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < 16; ++i) c.v[i] = fmaf(a.v[i], b.v[i], c.v[i]);
  return c;
}
/// c - a * b, rounded once.
COLIBRI_INLINE F32x16 negated_fma(F32x16 a, F32x16 b, F32x16 c) { return fma(sub(zero(), a), b, c); }
/// a < b ? x : y, lane by lane.
COLIBRI_INLINE F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  for (int i = 0; i < 16; ++i) y.v[i] = a.v[i] < b.v[i] ? x.v[i] : y.v[i];
  return y;
}
COLIBRI_INLINE float first_lane(F32x16 x) { return x.v[0]; }
/// Lane i gets lane i ^ kDistance (1, 2, 4 or 8).
template <int kDistance>
COLIBRI_INLINE F32x16 swap_lanes(F32x16 x) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = x.v[i ^ kDistance];
  return r;
}
/// Adds the low bits of t to the exponent of x: x * 2^t for t = 1.5 * 2^23 + integer, if the result is normal.
COLIBRI_INLINE F32x16 scale_by_power(F32x16 x, F32x16 t) {
  for (int i = 0; i < 16; ++i) {
    uint32_t bits, exponent;
    memcpy(&bits, &x.v[i], 4);
    memcpy(&exponent, &t.v[i], 4);
    bits += exponent << 23;
    memcpy(&x.v[i], &bits, 4);
  }
  return x;
}

COLIBRI_INLINE F32x16 load_bf16(const uint16_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    const uint32_t bits = static_cast<uint32_t>(p[i]) << 16;
    memcpy(&r.v[i], &bits, 4);
  }
  return r;
}
COLIBRI_INLINE F32x16 load_f16(const uint16_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) {
    // The half's bits, moved to where a float keeps them, are the value times 2^-112 (also for subnormals).
    uint32_t bits = static_cast<uint32_t>(p[i] & 0x7fff) << 13;
    float x;
    memcpy(&x, &bits, 4);
    x *= 0x1p112f;
    memcpy(&bits, &x, 4);
    if ((p[i] & 0x7c00) == 0x7c00) bits |= 0x7f800000u;
    bits |= static_cast<uint32_t>(p[i] & 0x8000) << 16;
    memcpy(&r.v[i], &bits, 4);
  }
  return r;
}
COLIBRI_INLINE F32x16 load_i8(const int8_t* p) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(p[i]);
  return r;
}

/// The lanes that something holds for: all bits set or none.
struct Lanes {
  uint32_t v[16];
};
/// a > b, where NaN ranks below every number: false when a is NaN, true when only b is.
COLIBRI_INLINE Lanes above(F32x16 a, F32x16 b) {
  Lanes r;
  for (int i = 0; i < 16; ++i) r.v[i] = 0u - static_cast<uint32_t>((a.v[i] == a.v[i]) & !(a.v[i] <= b.v[i]));
  return r;
}
/// Lane by lane: which ? x : y.
COLIBRI_INLINE F32x16 select(Lanes which, F32x16 x, F32x16 y) {
  uint32_t from_x[16], from_y[16];
  memcpy(from_x, x.v, sizeof from_x);
  memcpy(from_y, y.v, sizeof from_y);
  for (int i = 0; i < 16; ++i) from_y[i] = (from_x[i] & which.v[i]) | (from_y[i] & ~which.v[i]);
  memcpy(y.v, from_y, sizeof from_y);
  return y;
}
COLIBRI_INLINE bool any(Lanes lanes) {
  uint32_t r = 0;
  for (int i = 0; i < 16; ++i) r |= lanes.v[i];
  return r != 0;
}
/// Whole numbers that fit.
COLIBRI_INLINE void store_integers(int32_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int32_t>(x.v[i]);
}
/// Four numbers of each of 16 rows, transposed: lane r of column[i] = rows[r][first + i].
COLIBRI_INLINE void load_columns(const float* const* rows, int64_t first, F32x16* column) {
  for (int r = 0; r < 16; ++r)
    for (int i = 0; i < 4; ++i) column[i].v[r] = rows[r][first + i];
}

/// To the nearest half, ties to even. |x| <= 65504, or NaN.
COLIBRI_INLINE void store_f16(uint16_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) {
    uint32_t bits;
    memcpy(&bits, &x.v[i], 4);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 rounds it and leaves it in the low bits
      float shifted;
      memcpy(&shifted, &magnitude, 4);
      shifted += 0.5f;
      memcpy(&half, &shifted, 4);
      half -= 0x3f000000u;
    }
    if (magnitude > 0x7f800000u) half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    p[i] = static_cast<uint16_t>(half | (bits >> 16 & 0x8000u));
  }
}
/// To the nearest integer, ties to even. |x| <= 127; NaN gives any.
COLIBRI_INLINE void store_i8(int8_t* p, F32x16 x) {
  for (int i = 0; i < 16; ++i) {
    const float shifted = x.v[i] + 0x1.8p23f;  // the low bits of the sum are the integer
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    p[i] = static_cast<int8_t>(bits & 0xffu);
  }
}

}  // namespace
}  // namespace colibri::compute
