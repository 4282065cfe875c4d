// How a strip of a quantised panel (tensor/packed.h) is read: its scales, and its lines of bytes. Over the vectors
// included before.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

constexpr int64_t kLine = 64;
constexpr int kGroup = 32;  ///< inputs that share a scale, except in Q6_K
constexpr int kStripGroups = kStripWidth / kGroup;
constexpr int kGroupLines = kGroup / 4;

/// What the scales of a strip become before its lines are multiplied. Which parts are used depends on Form.
struct alignas(64) StripScales {
  float d[kStripGroups][kLanes];  ///< per group; of the whole strip in [0] for kSuper32 and kSuper16
  float m[kStripGroups][kLanes];  ///< per group, added; in [0] for kSuper32 and kSuper16Minimum, subtracted
  int32_t sc[2 * kStripGroups][kLanes];
  int32_t pairs[kStripGroups]
               [kLanes];  ///< two 16-bit factors: kSuper16.. of a group's runs of 16, else of groups g, g + 4
};

/// How weights follow from bytes u.
enum class Form {
  kCentred,        ///< d * (u - offset)
  kMinimum,        ///< d * u + m
  kSuper32,        ///< d * sc * u - m * factor, sc and factor per 32
  kSuper32Floats,  ///< the same with u below 16: sums of four groups' sc * dot fit a float exactly
  kSuper16,        ///< d * sc * (u - offset), sc per 16
  kSuper16Minimum  ///< d * sc * u - m * factor, sc and factor per 16
};

constexpr int64_t whole_lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

COLIBRI_INLINE F32x16 load_halves(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }

// ---- scales ----

/// half d[16] per group.
struct GroupScales {
  static constexpr int64_t bytes(int64_t inputs) { return whole_lines(inputs); }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t inputs, StripScales* out) {
    for (int64_t g = 0; g < inputs / kGroup; ++g) store(out->d[g], load_halves(p + 2 * kLanes * g));
  }
};

/// half d[16], m[16] per group.
struct GroupScalesAndMinima {
  static constexpr int64_t bytes(int64_t inputs) { return 2 * inputs; }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t inputs, StripScales* out) {
    for (int64_t g = 0; g < inputs / kGroup; ++g) {
      store(out->d[g], load_halves(p + kLine * g));
      store(out->m[g], load_halves(p + kLine * g + 2 * kLanes));
    }
  }
};

/// float d[16], m[16] per group.
struct FloatScalesAndMinima {
  static constexpr int64_t bytes(int64_t inputs) { return 4 * inputs; }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t inputs, StripScales* out) {
    for (int64_t g = 0; g < inputs / kGroup; ++g) {
      store(out->d[g], load(reinterpret_cast<const float*>(p + 2 * kLine * g)));
      store(out->m[g], load(reinterpret_cast<const float*>(p + 2 * kLine * g + kLine)));
    }
  }
};

/// Low nibbles of six bits, and two more at `at` of another number, less 32.
template <int kAt>
COLIBRI_INLINE I32x16 join_six_bits(I32x16 low, I32x16 high) {
  const I32x16 two = kAt < 4 ? shift_left(high, 4 - kAt) : shift_right(high, kAt - 4);
  return add(bit_or_and(bit_and(low, broadcast_int(15)), two, broadcast_int(48)), broadcast_int(-32));
}

/// half d[16]; six bits of sc + 32 per group: low nibbles uint8[4][16], two bits uint8[2][16].
struct SixBitScales {
  static constexpr int64_t kLow = 2 * kLanes, kHigh = kLow + 4 * kLanes;
  static constexpr int64_t bytes(int64_t /*inputs*/) { return 2 * kLine; }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t /*inputs*/, StripScales* out) {
    const F32x16 d = load_halves(p);
    for (int g = 0; g < kStripGroups; g += 4) {
      const uint8_t* low = p + kLow + g / 2 * kLanes;
      const I32x16 first = load_u8(low), second = load_u8(low + kLanes), high = load_u8(p + kHigh + g / 4 * kLanes);
      store(out->d[g], mul(d, to_float(join_six_bits<0>(first, high))));
      store(out->d[g + 1], mul(d, to_float(join_six_bits<2>(shift_right(first, 4), high))));
      store(out->d[g + 2], mul(d, to_float(join_six_bits<4>(second, high))));
      store(out->d[g + 3], mul(d, to_float(join_six_bits<6>(shift_right(second, 4), high))));
    }
  }
};

/// Exponents: 2^(e - 128).
struct GroupExponents {
  static constexpr int64_t bytes(int64_t inputs) { return whole_lines(inputs / 2); }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t inputs, StripScales* out) {
    for (int64_t g = 0; g < inputs / kGroup; ++g) {
      const I32x16 e = load_u8(p + kLanes * g);
      const I32x16 normal = shift_left(larger(add(e, broadcast_int(-1)), zero_int()), 23);
      // Below 2^-126 a float has its bit in the mantissa: 2^-128 is 0x200000 (t = 2), 2^-127 is 0x400000 (t = 1).
      const I32x16 t = larger(add(broadcast_int(2), mul(e, broadcast_int(-1))), zero_int());
      const I32x16 small = mul(t, add(broadcast_int(0x700000), mul(t, broadcast_int(-0x300000))));
      store(out->d[g], float_of_bits(bit_or(normal, small)));
    }
  }
};

/// half d[16], dmin[16]; words of 6-bit scales and minima. kFloats: sc is written as floats.
template <bool kFloats>
struct SuperScales {
  static constexpr int64_t bytes(int64_t /*inputs*/) { return 4 * kLine; }
  /// The values of groups g and g + 4 (g < 4) of each output, in the two halves of a number.
  static COLIBRI_INLINE I32x16 pair(I32x16 low, I32x16 high, int g, int high_at) {
    const I32x16 four = bit_and(shift_right(low, 4 * g), broadcast_int(0xf000f));
    const int shift = 2 * g + high_at - 4;
    return bit_or_and(four, shift < 0 ? shift_left(high, -shift) : shift_right(high, shift), broadcast_int(0x300030));
  }
  static COLIBRI_INLINE void store_factor(int32_t* to, I32x16 sc) {
    if constexpr (kFloats) {
      store(reinterpret_cast<float*>(to), to_float(sc));
    } else {
      store_ints(to, sc);
    }
  }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t /*inputs*/, StripScales* out) {
    store(out->d[0], load_halves(p));
    store(out->m[0], load_halves(p + 2 * kLanes));
    const I32x16 sc = load_ints(p + kLine), m = load_ints(p + 2 * kLine), high = load_ints(p + 3 * kLine);
    COLIBRI_UNROLL
    for (int g = 0; g < kStripGroups / 2; ++g) {
      const I32x16 two = pair(sc, high, g, 0);
      store_factor(out->sc[g], bit_and(two, broadcast_int(0xff)));
      store_factor(out->sc[g + kStripGroups / 2], shift_right(two, 16));
      store_ints(out->pairs[g], pair(m, high, g, 8));
    }
  }
};

/// The scales of a group's two runs of 16, also as a pair.
COLIBRI_INLINE void store_runs(int g, I32x16 first, I32x16 second, StripScales* out) {
  store_ints(out->sc[2 * g], first);
  store_ints(out->sc[2 * g + 1], second);
  store_ints(out->pairs[g], bit_or(bit_and(first, broadcast_int(0xffff)), shift_left(second, 16)));
}

/// int8 sc[16][16]; half d[16].
struct SignedSuperScales {
  static constexpr int64_t kScales = 16 * kLanes;
  static constexpr int64_t bytes(int64_t /*inputs*/) { return whole_lines(kScales + 2 * kLanes); }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t /*inputs*/, StripScales* out) {
    store(out->d[0], load_halves(p + kScales));
    COLIBRI_UNROLL
    for (int g = 0; g < kStripGroups; ++g) {
      store_runs(g, load_s8(p + 2 * g * kLanes), load_s8(p + (2 * g + 1) * kLanes), out);
    }
  }
};

/// Six bits of sc + 32 per run: nibbles uint8[8][16], two more bits uint8[4][16]; half d[16].
struct SixBitSuperScales {
  static constexpr int64_t kHigh = 8 * kLanes, kScale = kHigh + 4 * kLanes;
  static constexpr int64_t bytes(int64_t /*inputs*/) { return whole_lines(kScale + 2 * kLanes); }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t /*inputs*/, StripScales* out) {
    store(out->d[0], load_halves(p + kScale));
    for (int g = 0; g < kStripGroups; g += 2) {
      const I32x16 first = load_u8(p + g * kLanes), second = load_u8(p + (g + 1) * kLanes);
      const I32x16 high = load_u8(p + kHigh + g / 2 * kLanes);
      store_runs(g, join_six_bits<0>(first, high), join_six_bits<2>(shift_right(first, 4), high), out);
      store_runs(g + 1, join_six_bits<4>(second, high), join_six_bits<6>(shift_right(second, 4), high), out);
    }
  }
};

/// Nibbles sc, m of each run: uint8[16][16]; half d[16], dmin[16].
struct NibbleSuperScales {
  static constexpr int64_t kScale = 16 * kLanes;
  static constexpr int64_t bytes(int64_t /*inputs*/) { return kScale + 4 * kLanes; }
  static COLIBRI_INLINE void read(const uint8_t* p, int64_t /*inputs*/, StripScales* out) {
    store(out->d[0], load_halves(p + kScale));
    store(out->m[0], load_halves(p + kScale + 2 * kLanes));
    for (int g = 0; g < kStripGroups; ++g) {
      const I32x16 first = load_u8(p + 2 * g * kLanes), second = load_u8(p + (2 * g + 1) * kLanes);
      store_ints(out->sc[2 * g], bit_and(first, broadcast_int(15)));
      store_ints(out->sc[2 * g + 1], bit_and(second, broadcast_int(15)));
      store_ints(out->pairs[g], bit_or(shift_right(first, 4), shift_left(shift_right(second, 4), 16)));
    }
  }
};

// ---- lines: line(low, high, inputs, g, i) is number i of the eight lines of group g; no byte is above kMost ----

struct Bytes {
  static constexpr int kMost = 255;
  static constexpr int64_t low_bytes(int64_t inputs) { return 16 * inputs; }
  static constexpr int64_t high_bytes(int64_t /*inputs*/) { return 0; }
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* /*high*/, int64_t g, int i) {
    return load_line(low + g * (kGroupLines * kLine) + i * kLine);
  }
};

struct Nibbles {
  static constexpr int kMost = 15;
  static constexpr int64_t low_bytes(int64_t inputs) { return 8 * inputs; }
  static constexpr int64_t high_bytes(int64_t /*inputs*/) { return 0; }
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* /*high*/, int64_t g, int i) {
    return bits_from(load_line(low + g * (kGroupLines / 2 * kLine) + i / 2 * kLine), i % 2 * 4, 15);
  }
};

struct Pairs {
  static constexpr int kMost = 3;
  static constexpr int64_t low_bytes(int64_t inputs) { return 4 * inputs; }
  static constexpr int64_t high_bytes(int64_t /*inputs*/) { return 0; }
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* /*high*/, int64_t g, int i) {
    return bits_from(load_line(low + g * (2 * kLine) + i / 4 * kLine), i % 4 * 2, 3);
  }
};

struct ThreeBits {
  static constexpr int kMost = 7;
  static constexpr int64_t low_bytes(int64_t inputs) { return 4 * inputs; }
  static constexpr int64_t high_bytes(int64_t inputs) { return 2 * inputs; }
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* high, int64_t g, int i) {
    return join_bits<2>(Pairs::line(low, high, g, i), bits_from(load_line(high + g * kLine), i, 1));
  }
};

struct FiveBits {
  static constexpr int kMost = 31;
  static constexpr int64_t low_bytes(int64_t inputs) { return 8 * inputs; }
  static constexpr int64_t high_bytes(int64_t inputs) { return 2 * inputs; }
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* high, int64_t g, int i) {
    return join_bits<4>(Nibbles::line(low, high, g, i), bits_from(load_line(high + g * kLine), i, 1));
  }
};

struct SixBits {
  static constexpr int kMost = 63;
  static constexpr int64_t low_bytes(int64_t inputs) { return 8 * inputs; }
  static constexpr int64_t high_bytes(int64_t inputs) { return 4 * inputs; }
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* high, int64_t g, int i) {
    const U8x64 two = bits_from(load_line(high + g * (2 * kLine) + i / 4 * kLine), i % 4 * 2, 3);
    return join_bits<4>(Nibbles::line(low, high, g, i), two);
  }
};

constexpr int kMxfp4Offset = 12;
struct Mxfp4Codes : Nibbles {
  static constexpr int kMost = 24;
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* high, int64_t g, int i) {
    static const uint8_t table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};  // values + offset
    return look_up(table, Nibbles::line(low, high, g, i));
  }
};

constexpr int kIq4Offset = 128;
struct Iq4Codes : Nibbles {
  static constexpr int kMost = 241;
  static COLIBRI_INLINE U8x64 line(const uint8_t* low, const uint8_t* high, int64_t g, int i) {
    static const uint8_t table[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                      129, 141, 153, 166, 181, 197, 217, 241};  // values + offset
    return look_up(table, Nibbles::line(low, high, g, i));
  }
};

// ---- encodings ----

template <Form kFormOf, typename ScalesOf, typename LinesOf, int kOffsetOf = 0>
struct Codec {
  static constexpr Form kForm = kFormOf;
  static constexpr int kOffset = kOffsetOf;
  using Scales = ScalesOf;
  using Lines = LinesOf;
  static constexpr bool kSmall = Lines::kMost < 130;  ///< bytes are small: see dot4
  static constexpr int64_t low_at(int64_t inputs) { return Scales::bytes(inputs); }
  static constexpr int64_t high_at(int64_t inputs) { return low_at(inputs) + Lines::low_bytes(inputs); }
  static constexpr int64_t strip_bytes(int64_t inputs) {
    return high_at(inputs) + whole_lines(Lines::high_bytes(inputs));
  }
};

using Q8_0 = Codec<Form::kCentred, GroupScales, Bytes, 128>;
using Q4_0 = Codec<Form::kCentred, GroupScales, Nibbles, 8>;
using Q4_1 = Codec<Form::kMinimum, GroupScalesAndMinima, Nibbles>;
using Q5_0 = Codec<Form::kCentred, GroupScales, FiveBits, 16>;
using Q5_1 = Codec<Form::kMinimum, GroupScalesAndMinima, FiveBits>;
using MXFP4 = Codec<Form::kCentred, GroupExponents, Mxfp4Codes, kMxfp4Offset>;
using Q4_K = Codec<Form::kSuper32Floats, SuperScales<true>, Nibbles>;
using Q5_K = Codec<Form::kSuper32, SuperScales<false>, FiveBits>;
using Q6_K = Codec<Form::kSuper16, SignedSuperScales, SixBits, 32>;
using IQ4_NL = Codec<Form::kCentred, GroupScales, Iq4Codes, kIq4Offset>;
using IQ4_XS = Codec<Form::kCentred, SixBitScales, Iq4Codes, kIq4Offset>;
using Q2_K = Codec<Form::kSuper16Minimum, NibbleSuperScales, Pairs>;
using Q3_K = Codec<Form::kSuper16, SixBitSuperScales, ThreeBits, 4>;
using Codes4 = Codec<Form::kMinimum, FloatScalesAndMinima, Nibbles>;
using Codes8 = Codec<Form::kMinimum, FloatScalesAndMinima, Bytes>;

}  // namespace
}  // namespace colibri::compute
