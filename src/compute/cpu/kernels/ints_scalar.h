// The integer vectors of the quantised kernels in plain C: the definition of what every level computes.
//
// I32x16: 16 whole numbers. U8x64: a line of a packed weight panel, four bytes for each of 16 outputs. All ints_*.h
// offer the same functions; sums never overflow by construction of the encodings, so their order is free.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/vec_scalar.h"

namespace colibri::compute {
namespace {

struct I32x16 {
  int32_t v[16];
};
struct U8x64 {
  uint8_t v[64];
};

// Rows of the register tile over unpacked weights, and the panels beside it.
constexpr int kDotRows = COLIBRI_TILE_ROWS(4);
constexpr int kDirectRows = COLIBRI_TILE_ROWS(2);  // rows that multiply lines as they are decoded
constexpr int kDotPanels = 1;

COLIBRI_INLINE I32x16 broadcast_int(int32_t x) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = x;
  return r;
}
COLIBRI_INLINE I32x16 zero_int() { return broadcast_int(0); }
COLIBRI_INLINE I32x16 load_ints(const void* p) {
  I32x16 r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
COLIBRI_INLINE void store_ints(void* p, I32x16 x) { memcpy(p, x.v, sizeof x.v); }
/// 16 bytes, each to its own number.
COLIBRI_INLINE I32x16 load_u8(const uint8_t* p) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = p[i];
  return r;
}
COLIBRI_INLINE I32x16 load_s8(const uint8_t* p) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<int8_t>(p[i]);
  return r;
}
COLIBRI_INLINE I32x16 add(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
COLIBRI_INLINE I32x16 mul(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] *= b.v[i];
  return a;
}
COLIBRI_INLINE I32x16 bit_and(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] &= b.v[i];
  return a;
}
COLIBRI_INLINE I32x16 bit_or(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] |= b.v[i];
  return a;
}
/// a | (b & mask).
COLIBRI_INLINE I32x16 bit_or_and(I32x16 a, I32x16 b, I32x16 mask) { return bit_or(a, bit_and(b, mask)); }
COLIBRI_INLINE I32x16 shift_left(I32x16 a, int n) {
  for (int i = 0; i < 16; ++i) a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << n);
  return a;
}
/// Zeros come in from above.
COLIBRI_INLINE I32x16 shift_right(I32x16 a, int n) {
  for (int i = 0; i < 16; ++i) a.v[i] = static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> n);
  return a;
}
COLIBRI_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
  return a;
}
COLIBRI_INLINE F32x16 to_float(I32x16 a) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = static_cast<float>(a.v[i]);
  return r;
}
/// To the nearest whole number, halves to even. For |x| < 2^22: adding 1.5 * 2^23 leaves it in the low bits.
COLIBRI_INLINE I32x16 to_int(F32x16 x) {
  I32x16 r;
  for (int i = 0; i < 16; ++i) {
    const float sum = x.v[i] + 0x1.8p23f;
    memcpy(&r.v[i], &sum, 4);
    r.v[i] -= 0x4b400000;
  }
  return r;
}
COLIBRI_INLINE I32x16 bits_of(F32x16 x) { return load_ints(x.v); }
COLIBRI_INLINE F32x16 float_of_bits(I32x16 x) {
  F32x16 r;
  memcpy(r.v, x.v, sizeof r.v);
  return r;
}
/// The low byte of each number.
COLIBRI_INLINE void store_bytes(int8_t* p, I32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(x.v[i]);
}

COLIBRI_INLINE U8x64 load_line(const uint8_t* p) {
  U8x64 r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}
COLIBRI_INLINE void store_line(uint8_t* p, U8x64 x) { memcpy(p, x.v, sizeof x.v); }
/// (byte >> n) & mask. n at most 7, mask below 256 >> n.
COLIBRI_INLINE U8x64 bits_from(U8x64 x, int n, int mask) {
  for (int i = 0; i < 64; ++i) x.v[i] = static_cast<uint8_t>(x.v[i] >> n & mask);
  return x;
}
/// low | (high << kShift), high below 256 >> kShift.
template <int kShift>
COLIBRI_INLINE U8x64 join_bits(U8x64 low, U8x64 high) {
  for (int i = 0; i < 64; ++i) low.v[i] = static_cast<uint8_t>(low.v[i] | high.v[i] << kShift);
  return low;
}
/// table[byte], bytes below 16.
COLIBRI_INLINE U8x64 look_up(const uint8_t* table, U8x64 x) {
  for (int i = 0; i < 64; ++i) x.v[i] = table[x.v[i]];
  return x;
}

/// sums[o] + the dot product of the line's four bytes of output o with the four activations at `a`. kSmall: no byte of
/// the line exceeds 129, so that sums of two products fit 16 bits.
template <bool kSmall>
COLIBRI_INLINE I32x16 dot4(I32x16 sums, U8x64 w, const int8_t* a) {
  for (int o = 0; o < 16; ++o)
    for (int i = 0; i < 4; ++i) sums.v[o] += w.v[4 * o + i] * a[i];
  return sums;
}
/// The sums of four of 64 signed bytes each.
COLIBRI_INLINE I32x16 sums_of_four(const int8_t* p) {
  I32x16 r = zero_int();
  for (int i = 0; i < 64; ++i) r.v[i / 4] += p[i];
  return r;
}
/// sums[o] + the dot product of two 16-bit numbers of each lane with the two at `a`.
COLIBRI_INLINE I32x16 dot2(I32x16 sums, I32x16 pairs, const int16_t* a) {
  for (int o = 0; o < 16; ++o) {
    int16_t pair[2];
    memcpy(pair, &pairs.v[o], 4);
    sums.v[o] += pair[0] * a[0] + pair[1] * a[1];
  }
  return sums;
}

}  // namespace
}  // namespace colibri::compute
