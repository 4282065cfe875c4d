#include "tensor/blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tensor/convert.h"
#include "tensor/fp4.h"
#include "tensor/grids.h"

namespace colibri {
namespace {

template <typename T>
T load(const std::byte* src) {
  T value;
  std::memcpy(&value, src, sizeof value);
  return value;
}
float half(const std::byte* src) { return f16_to_f32(load<uint16_t>(src)); }
int byte(const std::byte* src, int64_t i) { return static_cast<int>(src[i]); }
/// Four bits of element i: low nibbles first.
int nibble(const std::byte* src, int64_t i) { return byte(src, i / 2) >> i % 2 * 4 & 15; }

// Where a decoder puts what it finds, eight codes at a time: codes(i, word) for inputs i to i + 7 of the block, one a
// byte plus kExpandedOffset; scale(j, d) for the sixteen inputs from 16 j on.

/// One block of one row.
struct BlockOut {
  uint8_t u[256];
  float d[16];

  void codes(int i, uint64_t eight) { std::memcpy(u + i, &eight, sizeof eight); }
  void scale(int sixteen, float value) { d[sixteen] = value; }
};

/// One output of a strip, in which the block begins at input `first`.
struct LaneOut {
  ExpandedStrip& strip;
  int64_t output, first;

  void codes(int i, uint64_t eight) {
    uint8_t* at = strip.lines[(first + i) / 4] + 4 * output;
    const auto low = static_cast<uint32_t>(eight), high = static_cast<uint32_t>(eight >> 32);
    std::memcpy(at, &low, sizeof low);
    std::memcpy(at + sizeof strip.lines[0], &high, sizeof high);
  }
  void scale(int sixteen, float value) { strip.d[first / 16 + sixteen][output] = value; }
};

constexpr uint64_t kOnes = 0x0101010101010101u;
constexpr uint64_t kZero = kExpandedOffset * kOnes;

/// Magnitudes below 64 with the signs of a mask, as codes.
uint64_t with_signs(uint64_t magnitudes, uint64_t mask) {
  return kZero + (magnitudes & ~mask) - (magnitudes & mask);  // no byte carries into the next
}
uint64_t join(uint32_t low, uint32_t high) { return low | static_cast<uint64_t>(high) << 32; }

template <typename Out>
void scale_both(Out& out, int thirty_two, float d) {
  out.scale(2 * thirty_two, d);
  out.scale(2 * thirty_two + 1, d);
}

// IQ2 and IQ3: points of a lattice with signs. `s` of a scale (0 to 15): d * (1/2 + s) * what the grid is multiplied
// with.
float half_step(float d, uint32_t s, float unit) { return d * (0.5f + static_cast<float>(s)) * unit; }

/// Four runs of seven signs and a scale on top.
struct SignsAndScale {
  uint32_t bits;
  uint64_t mask(int run) const { return kEvenSignMasks[bits >> 7 * run & 127]; }
  uint32_t scale() const { return bits >> 28; }
};

struct IQ2XXS {  // half d; per 32 inputs four numbers of points, SignsAndScale
  static constexpr int kInputs = 256, kBytes = 66;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const float d = half(src);
    for (int g = 0; g < 8; ++g) {
      const std::byte* group = src + 2 + 8 * g;
      const SignsAndScale signs{load<uint32_t>(group + 4)};
      scale_both(out, g, half_step(d, signs.scale(), 0.25f));
      for (int i = 0; i < 4; ++i)
        out.codes(32 * g + 8 * i, with_signs(kIq2XxsGrid[static_cast<uint8_t>(group[i])], signs.mask(i)));
    }
  }
};

struct IQ2XS {  // half d; uint16[32]: nine bits of a point, seven signs; nibbles[8]: scales of sixteen
  static constexpr int kInputs = 256, kBytes = 74;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const float d = half(src);
    for (int j = 0; j < 16; ++j) out.scale(j, half_step(d, static_cast<uint32_t>(nibble(src + 66, j)), 0.25f));
    for (int i = 0; i < 32; ++i) {
      const auto point = load<uint16_t>(src + 2 + 2 * i);
      out.codes(8 * i, with_signs(kIq2XsGrid[point & 511], kEvenSignMasks[point >> 9]));
    }
  }
};

struct IQ2S {  // half d; points[32], signs[32], upper bits of points[8], nibbles[8]: scales of sixteen
  static constexpr int kInputs = 256, kBytes = 82;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const float d = half(src);
    for (int j = 0; j < 16; ++j) out.scale(j, half_step(d, static_cast<uint32_t>(nibble(src + 74, j)), 0.25f));
    for (int g = 0; g < 8; ++g) {
      for (int i = 0; i < 4; ++i) {
        const int point = byte(src + 2 + 4 * g, i) | (byte(src + 66, g) >> 2 * i & 3) << 8;
        const uint64_t mask = kSignMasks[static_cast<uint8_t>(src[34 + 4 * g + i])];
        out.codes(32 * g + 8 * i, with_signs(kIq2SGrid[static_cast<size_t>(point)], mask));
      }
    }
  }
};

struct IQ3XXS {  // half d; points of four inputs[64]; per 32 inputs SignsAndScale
  static constexpr int kInputs = 256, kBytes = 98;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const float d = half(src);
    const auto point = [src](int i) { return kIq3XxsGrid[static_cast<uint8_t>(src[2 + i])]; };
    for (int g = 0; g < 8; ++g) {
      const SignsAndScale signs{load<uint32_t>(src + 66 + 4 * g)};
      scale_both(out, g, half_step(d, signs.scale(), 0.5f));
      for (int i = 4 * g; i < 4 * g + 4; ++i)
        out.codes(8 * i, with_signs(join(point(2 * i), point(2 * i + 1)), signs.mask(i % 4)));
    }
  }
};

struct IQ3S {  // half d; points[64], their upper bits[8], signs[32], nibbles[4]: scales of 32
  static constexpr int kInputs = 256, kBytes = 110;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const float d = half(src);
    for (int g = 0; g < 8; ++g) {
      scale_both(out, g, d * static_cast<float>(1 + 2 * nibble(src + 106, g)));
      const auto point = [low = src + 2 + 8 * g, high = byte(src + 66, g)](int i) {
        return kIq3SGrid[static_cast<size_t>(byte(low, i) | (high >> i & 1) << 8)];
      };
      for (int i = 0; i < 4; ++i) {
        const uint64_t mask = kSignMasks[static_cast<uint8_t>(src[74 + 4 * g + i])];
        out.codes(32 * g + 8 * i, with_signs(join(point(2 * i), point(2 * i + 1)), mask));
      }
    }
  }
};

// IQ1: d * (2 s + 1) * (point + or - 1/8), points of -1, 0, 1. The grid holds eight times the points, so that codes are
// whole; an eighth of the scale is exact. `bits`: three more bits of the point's number and the sign of the eighth.
uint64_t iq1_codes(int low, int bits) {
  const uint64_t point = kIq1Grid[static_cast<size_t>(low | (bits & 7) << 8)];
  return point + kOnes - 2 * kOnes * static_cast<uint64_t>(bits >> 3 & 1);
}
float iq1_scale(float d, int s) { return d * static_cast<float>(2 * (s & 7) + 1) * 0.125f; }

struct IQ1S {  // half d; points[32]; per 32 inputs uint16: 4 * 3 upper bits of points, three bits of s, the sign
  static constexpr int kInputs = 256, kBytes = 50;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const float d = half(src);
    for (int g = 0; g < 8; ++g) {
      const int bits = load<uint16_t>(src + 34 + 2 * g), sign = bits >> 15 << 3;
      scale_both(out, g, iq1_scale(d, bits >> 12));
      for (int i = 0; i < 4; ++i)
        out.codes(32 * g + 8 * i, iq1_codes(byte(src + 2, 4 * g + i), (bits >> 3 * i & 7) | sign));
    }
  }
};

struct IQ1M {  // points[32]; nibbles[16]: upper bits and sign; uint16[4]: four s each, and a nibble of the half d on
               // top
  static constexpr int kInputs = 256, kBytes = 56;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    const auto words = [src](int i) { return static_cast<int>(load<uint16_t>(src + 48 + 2 * i)); };
    const int bits = words(0) >> 12 | words(1) >> 12 << 4 | words(2) >> 12 << 8 | words(3) >> 12 << 12;
    const float d = f16_to_f32(static_cast<uint16_t>(bits));
    for (int j = 0; j < 16; ++j) out.scale(j, iq1_scale(d, words(j / 4) >> 3 * (j % 4)));
    for (int j = 0; j < 16; ++j) {
      const int high = byte(src + 32, j);
      out.codes(16 * j, iq1_codes(byte(src, 2 * j), high));
      out.codes(16 * j + 8, iq1_codes(byte(src, 2 * j + 1), high >> 4));
    }
  }
};

template <typename Out>
void scale_all(Out& out, int sixteens, float d) {
  for (int j = 0; j < sixteens; ++j) out.scale(j, d);
}

struct TQ1 {  // digits of base three: 32 bytes of five, 16 bytes of five, 4 bytes of four; half d
  static constexpr int kInputs = 256, kBytes = 54;

  /// Eight bytes as fractions of 256 in two words, whose next digits are taken off.
  struct Fractions {
    static constexpr uint64_t kBytesOfPairs = 0x00ff00ff00ff00ffu;
    uint64_t even, odd;
    explicit Fractions(uint64_t bytes) : even(bytes & kBytesOfPairs), odd(bytes >> 8 & kBytesOfPairs) {}
    uint64_t next_codes() {
      even = 3 * even;
      odd = 3 * odd;
      const uint64_t digits = (even >> 8 & kBytesOfPairs) | (odd & ~kBytesOfPairs);
      even &= kBytesOfPairs;
      odd &= kBytesOfPairs;
      return digits + kZero - kOnes;
    }
  };
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    scale_all(out, 16, half(src + 52));
    for (int l = 0; l < 48; l += 8) {
      Fractions bytes(load<uint64_t>(src + l));
      for (int p = 0; p < 5; ++p) out.codes(l < 32 ? 32 * p + l : 160 + 16 * p + l - 32, bytes.next_codes());
    }
    Fractions last(load<uint32_t>(src + 48));
    for (int p = 0; p < 4; p += 2) {
      const auto first = static_cast<uint32_t>(last.next_codes());
      out.codes(240 + 4 * p, join(first, static_cast<uint32_t>(last.next_codes())));
    }
  }
};

struct TQ2 {  // bit pairs[64], half d: element 128 h + 32 q + l is pair q of byte 32 h + l
  static constexpr int kInputs = 256, kBytes = 66;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    scale_all(out, 16, half(src + 64));
    for (int l = 0; l < 64; l += 8) {
      const auto pairs = load<uint64_t>(src + l);
      for (int q = 0; q < 4; ++q)
        out.codes(l / 32 * 128 + 32 * q + l % 32, (pairs >> 2 * q & 3 * kOnes) + kZero - kOnes);
    }
  }
};

struct NVFP4 {  // uint8 scales[4] (e4m3 without sign); per sixteen inputs eight bytes: low nibbles, then high ones
  static constexpr int kInputs = 64, kBytes = 36;
  /// Half of the e4m3 value, because the codes are doubled. 127 stands for 0.
  static float scale(int e) {
    return (e & 127) == 127 && e < 128 ? 0.0f : 0.5f * e4m3_magnitude(static_cast<uint8_t>(e));
  }
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    for (int j = 0; j < 4; ++j) {
      out.scale(j, scale(byte(src, j)));
      const auto codes = load<uint64_t>(src + 4 + 8 * j);
      for (int high = 0; high < 2; ++high)
        out.codes(16 * j + 8 * high, fp4_values(codes >> 4 * high & 15 * kOnes) + kZero - kFp4Zero * kOnes);
    }
  }
};

struct Q1 {  // half d, bits[16]: 1 is d, 0 is -d
  static constexpr int kInputs = 128, kBytes = 18;
  template <typename Out>
  static void decode(const std::byte* src, Out& out) {
    scale_all(out, 8, half(src));
    for (int i = 0; i < 16; ++i)
      out.codes(8 * i, kZero - kOnes + (kSignMasks[static_cast<uint8_t>(src[2 + i])] & 2 * kOnes));
  }
};

template <typename Block>
void convert(const std::byte* src, int64_t n, float* dst) {
  for (int64_t first = 0; first < n; first += Block::kInputs, src += Block::kBytes, dst += Block::kInputs) {
    BlockOut out;
    Block::decode(src, out);
    for (int i = 0; i < Block::kInputs; ++i) {
      dst[i] = out.d[i / 16] * static_cast<float>(out.u[i] - kExpandedOffset);
    }
  }
}

template <typename Block>
void expand(const void* strip, int64_t inputs, ExpandedStrip* out) {
  const auto* src = static_cast<const std::byte*>(strip);
  for (int64_t output = 0; output < 16; ++output) {
    for (int64_t first = 0; first < inputs; first += Block::kInputs, src += Block::kBytes) {
      LaneOut lane{*out, output, first};
      Block::decode(src, lane);
    }
  }
}

template <typename Block>
constexpr BlockCodec codec(DType dtype) {
  return {dtype, Block::kInputs, Block::kBytes, convert<Block>, expand<Block>};
}

constexpr BlockCodec kCodecs[] = {
    codec<IQ1S>(DType::kIQ1_S),   codec<IQ1M>(DType::kIQ1_M), codec<IQ2XXS>(DType::kIQ2_XXS),
    codec<IQ2XS>(DType::kIQ2_XS), codec<IQ2S>(DType::kIQ2_S), codec<IQ3XXS>(DType::kIQ3_XXS),
    codec<IQ3S>(DType::kIQ3_S),   codec<TQ1>(DType::kTQ1_0),  codec<TQ2>(DType::kTQ2_0),
    codec<NVFP4>(DType::kNVFP4),  codec<Q1>(DType::kQ1_0),
};

}  // namespace

const BlockCodec* block_codec(DType dtype) {
  const auto* found = std::find_if(std::begin(kCodecs), std::end(kCodecs),
                                   [dtype](const BlockCodec& codec) { return codec.dtype == dtype; });
  return found == std::end(kCodecs) ? nullptr : found;
}

}  // namespace colibri
