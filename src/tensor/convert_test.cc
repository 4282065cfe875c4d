#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/random_blocks.h"

namespace colibri {
namespace {

// The value of a half by its definition, in double.
double half_by_definition(uint16_t h) {
  const int sign = h & 0x8000 ? -1 : 1;
  const int exponent = h >> 10 & 31;
  const int mantissa = h & 1023;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Convert, EveryHalfIsExactAndComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto h = static_cast<uint16_t>(bits);
    const float f = f16_to_f32(h);
    const double want = half_by_definition(h);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(f)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(f), want) << bits;
    ASSERT_EQ(f32_to_f16(f), h) << bits;  // the sign of zero included
  }
}

TEST(Convert, HalfRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {  // between each two finite neighbours
    const float low = f16_to_f32(static_cast<uint16_t>(bits)), high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact in float
    const auto even = static_cast<uint16_t>(bits + (bits & 1));
    ASSERT_EQ(f32_to_f16(middle), even) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(f32_to_f16(-std::nextafter(middle, high)), bits + 1 + 0x8000) << bits;
  }
}

TEST(Convert, HalfOverflowsToInfinityOnlyFrom65520) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Convert, Bf16RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(bf16_to_f32(0xc000), -2.0f);
}

TEST(Convert, Q8BlocksNeedNoAlignment) {
  std::vector<std::byte> bytes(1 + 2 * 34);
  std::byte* block = bytes.data() + 1;
  for (int b = 0; b < 2; ++b, block += 34) {
    const uint16_t scale = b == 0 ? 0x3800 : 0xc000;  // 0.5, -2
    std::memcpy(block, &scale, 2);
    for (int i = 0; i < 32; ++i) block[2 + i] = static_cast<std::byte>(i == 0 ? -128 : i);
  }
  float out[64];
  convert_to_f32(DType::kQ8_0, bytes.data() + 1, 64, out);
  EXPECT_EQ(out[0], -64.0f);
  EXPECT_EQ(out[31], 15.5f);
  EXPECT_EQ(out[32], 256.0f);
  EXPECT_EQ(out[63], -62.0f);
}

// `validate` finds damaged scales by converting: they must show whatever the codes and the other scales are.
TEST(Convert, ScalesThatAreNotFiniteAlwaysShow) {
  for (const DType dtype : kFileTypes) {
    const int n = info(dtype).block_elements;
    for (const int64_t half : half_offsets(dtype)) {
      for (const uint16_t scale : {uint16_t{0x7c00}, uint16_t{0xfc00}, uint16_t{0x7e01}}) {
        std::vector<std::byte> block(static_cast<size_t>(info(dtype).block_bytes));
        std::memcpy(block.data() + half, &scale, sizeof scale);
        std::vector<float> out(static_cast<size_t>(n));
        convert_to_f32(dtype, block.data(), n, out.data());
        EXPECT_FALSE(std::all_of(out.begin(), out.end(), [](float v) { return std::isfinite(v); }))
            << info(dtype).name << " half at " << half;
      }
    }
  }
}

TEST(Convert, ScaleOfMxfp4IsAPowerOfTwoDownToTheSmallest) {
  for (int e = 0; e < 256; ++e) EXPECT_EQ(half_e8m0_to_f32(static_cast<uint8_t>(e)), std::ldexp(1.0f, e - 128)) << e;
}

TEST(Convert, EightBitFloatsAreExact) {
  for (int bits = 0; bits < 256; ++bits) {
    const float f = e4m3_to_f32(static_cast<uint8_t>(bits));
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    if ((bits & 127) == 127) {
      EXPECT_TRUE(std::isnan(f)) << bits;
      continue;
    }
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                          : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    EXPECT_EQ(f, bits < 128 ? magnitude : -magnitude) << bits;
    EXPECT_EQ(std::signbit(f), bits >= 128) << bits;
  }
}

// gguf-py has no values for it: bit i of the block is the sign of element i.
TEST(Convert, OneBitBlocksAreSigns) {
  std::byte block[18] = {std::byte{0x00}, std::byte{0xb8}, std::byte{0x05}};  // -0.5
  block[17] = std::byte{0x80};
  float out[128];
  convert_to_f32(DType::kQ1_0, block, 128, out);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out[i], i == 0 || i == 2 || i == 127 ? -0.5f : 0.5f) << i;
}

TEST(ConvertDeathTest, PartialBlocksAreAProgrammingError) {
  std::byte bytes[34] = {};
  float out[32];
  EXPECT_DEATH(convert_to_f32(DType::kQ8_0, bytes, 31, out), "internal error");
  EXPECT_DEATH(convert_to_f32(DType::kI32, bytes, 1, out), "internal error");
}

}  // namespace
}  // namespace colibri
