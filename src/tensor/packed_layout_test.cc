// The bytes of the quantised encodings, read as docs/encodings.md and tensor/packed.h state them: one weight at a time,
// byte by byte, with nothing of the code that packs and expands. Kernels depend on these places.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/random_blocks.h"

namespace colibri {
namespace {

// One weight: output o (of 16) and input i of a strip of s inputs.
struct Place {
  const std::byte* strip;
  int64_t s, o, i;

  int byte(int64_t at) const { return static_cast<int>(strip[at]); }
  float half(int64_t at) const { return f16_to_f32(static_cast<uint16_t>(byte(at) | byte(at + 1) << 8)); }
  uint32_t word(int64_t at) const {
    uint32_t value = 0;
    for (int b = 3; b >= 0; --b) value = value << 8 | static_cast<uint32_t>(byte(at + b));
    return value;
  }

  // Codes. `at` is where the part begins.
  int eight_bits(int64_t at) const { return byte(at + i / 4 * 64 + 4 * o + i % 4); }
  int four_bits(int64_t at) const { return byte(at + i / 8 * 64 + 4 * o + i % 4) >> i / 4 % 2 * 4 & 15; }
  int one_bit(int64_t at) const { return byte(at + i / 32 * 64 + 4 * o + i % 4) >> i / 4 % 8 & 1; }
  int two_bits(int64_t at) const { return byte(at + i / 16 * 64 + 4 * o + i % 4) >> 2 * (i / 4 % 4) & 3; }
  int five_bits(int64_t low) const { return four_bits(low) + 16 * one_bit(low + 8 * s); }

  // Scales.
  int64_t g() const { return i / 32; }
  float d() const { return half(32 * g() + 2 * o); }
  float d_of_pair() const { return half(64 * g() + 2 * o); }
  float m_of_pair() const { return half(64 * g() + 32 + 2 * o); }
  int64_t upper_bit() const { return 16 * (g() / 4) + 2 * (g() % 4); }
  float k_scale() const {
    const auto scale =
        static_cast<int>((word(64 + 4 * o) >> 4 * g() & 15) | (word(192 + 4 * o) >> upper_bit() & 3) << 4);
    return half(2 * o) * static_cast<float>(scale);
  }
  float k_minimum() const {
    const uint32_t upper = word(192 + 4 * o) >> 8;
    const auto minimum = static_cast<int>((word(128 + 4 * o) >> 4 * g() & 15) | (upper >> upper_bit() & 3) << 4);
    return half(32 + 2 * o) * static_cast<float>(minimum);
  }
};

int64_t whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

float weight(Encoding encoding, const Place& p) {
  const int64_t halves = whole_lines(p.s), pairs = 2 * p.s;
  const auto f = [](int u) { return static_cast<float>(u); };
  switch (encoding) {
    case Encoding::kQ8_0:
      return p.d() * f(p.eight_bits(halves) - 128);
    case Encoding::kQ4_0:
      return p.d() * f(p.four_bits(halves) - 8);
    case Encoding::kQ4_1:
      return p.d_of_pair() * f(p.four_bits(pairs)) + p.m_of_pair();
    case Encoding::kQ5_0:
      return p.d() * f(p.five_bits(halves) - 16);
    case Encoding::kQ5_1:
      return p.d_of_pair() * f(p.five_bits(pairs)) + p.m_of_pair();
    case Encoding::kMXFP4:
      return std::ldexp(f(kMxfp4Values[p.four_bits(whole_lines(p.s / 2))]), p.byte(16 * p.g() + p.o) - 128);
    case Encoding::kQ4_K:
      return p.k_scale() * f(p.four_bits(256)) - p.k_minimum();
    case Encoding::kQ5_K:
      return p.k_scale() * f(p.five_bits(256)) - p.k_minimum();
    case Encoding::kQ6_K: {
      const auto scale = static_cast<int8_t>(p.byte(16 * (p.i / 16) + p.o));
      return p.half(256 + 2 * p.o) * f(scale) * f(p.four_bits(320) + 16 * p.two_bits(320 + 2048) - 32);
    }
    case Encoding::kQ2_K: {
      const int pair = p.byte(16 * (p.i / 16) + p.o);
      return p.half(256 + 2 * p.o) * f(pair & 15) * f(p.two_bits(320)) - p.half(288 + 2 * p.o) * f(pair >> 4);
    }
    case Encoding::kQ3_K: {
      const auto j = p.i / 16;
      const int low = p.byte(16 * (j / 2) + p.o) >> j % 2 * 4 & 15,
                high = p.byte(128 + 16 * (j / 4) + p.o) >> j % 4 * 2 & 3;
      return p.half(192 + 2 * p.o) * f((low | high << 4) - 32) * f(p.two_bits(256) + 4 * p.one_bit(256 + 1024) - 4);
    }
    case Encoding::kIQ4_NL:
      return p.d() * f(kIq4Values[p.four_bits(halves)]);
    case Encoding::kIQ4_XS: {
      const auto g = p.g();
      const int low = p.byte(32 + 16 * (g / 2) + p.o) >> g % 2 * 4 & 15,
                high = p.byte(96 + 16 * (g / 4) + p.o) >> g % 4 * 2 & 3;
      return p.half(2 * p.o) * f((low | high << 4) - 32) * f(kIq4Values[p.four_bits(128)]);
    }
    default:
      ADD_FAILURE();
      return 0;
  }
}

// Panels and strips of one matrix, by the sizes of the table: scales, low bits, high bits.
void expect_layout(const BlockMatrix& m) {
  const Encoding encoding = *encoding_for(m.dtype);
  const auto bytes = pack(m, m.n);
  const std::byte* strip = bytes.data();
  for (int64_t first_row = 0; first_row < m.n; first_row += 16) {
    for (int64_t first = 0; first < m.k; first += 256) {
      const int64_t s = std::min<int64_t>(256, m.k - first);
      for (int64_t o = 0; o < 16 && first_row + o < m.n; ++o) {
        const auto want = m.row(first_row + o);
        for (int64_t i = 0; i < s; ++i) {
          const float got = weight(encoding, {strip, s, o, i});
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want[static_cast<size_t>(first + i)]))
              << name(encoding) << " output " << first_row + o << " input " << first + i;
        }
      }
      strip += strip_bytes(encoding, s);
    }
  }
  EXPECT_EQ(strip, bytes.data() + bytes.size());
}

TEST(PackedLayout, EveryWeightStandsWhereTheDocumentSays) {
  for (const DType dtype : kFileTypes)
    if (info(dtype).block_elements > 1 && !is_blocks(*encoding_for(dtype)))
      for (const int64_t k : interesting_widths(dtype)) expect_layout(random_blocks(dtype, 19, k));
}

// Blocks stand in strips as they were in the file: those of one output after those of the other.
TEST(PackedLayout, BlocksAreTheFilesOwnBytes) {
  for (const DType dtype : kFileTypes) {
    if (!is_blocks(*encoding_for(dtype))) continue;
    for (const int64_t k : interesting_widths(dtype)) {
      const BlockMatrix m = random_blocks(dtype, 19, k);
      const auto bytes = pack(m, m.n);
      const int64_t panel = panel_bytes(*encoding_for(dtype), k);
      EXPECT_EQ(panel % 64, 0);
      EXPECT_LT(panel - 16 * m.row_bytes(), 64);
      for (int64_t row = 0; row < m.n; ++row) {
        for (int64_t at = 0; at < k; at += info(dtype).block_elements) {
          const int64_t s = std::min<int64_t>(256, k - at / 256 * 256), row_of_strip = s * m.row_bytes() / k;
          const int64_t place = row / 16 * panel + at / 256 * 16 * (256 * m.row_bytes() / k) + row % 16 * row_of_strip +
                                at % 256 * m.row_bytes() / k;
          ASSERT_EQ(std::memcmp(bytes.data() + place, m.bytes.data() + row * m.row_bytes() + at * m.row_bytes() / k,
                                static_cast<size_t>(info(dtype).block_bytes)),
                    0)
              << info(dtype).name << " row " << row << " input " << at;
        }
      }
    }
  }
}

}  // namespace
}  // namespace colibri
