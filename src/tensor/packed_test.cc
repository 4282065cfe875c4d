#include "tensor/packed.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tensor/random_blocks.h"
#include "tensor/tensor.h"
#include "tensor/unpack.h"

namespace colibri {
namespace {

// Equal as bits: -0 is not +0, and the NaN of random plain bytes equals itself.
bool same_bits(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

std::string describe(const BlockMatrix& m) {
  return std::string(info(m.dtype).name) + " [" + std::to_string(m.n) + ", " + std::to_string(m.k) + "]";
}

TEST(Packed, EveryEncodingHasItsFileType) {
  int packable = 0;
  for (const DType dtype : kFileTypes) EXPECT_EQ(encoding_for(dtype), static_cast<Encoding>(packable++));
  packable = 0;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(info(dtype).readable, encoding_for(dtype).has_value()) << info(dtype).name;
    packable += encoding_for(dtype).has_value();
  }
  EXPECT_EQ(packable, static_cast<int>(std::size(kFileTypes)));
  EXPECT_FALSE(encoding_for(DType::kCount));
  EXPECT_EQ(name(Encoding::kMXFP4), "mxfp4");
  EXPECT_EQ(name(Encoding::kQ6_K), "q6_k");
}

TEST(Packed, TranscodingLosesNothing) {
  for (const DType dtype : kFileTypes) {
    for (const int64_t n : {1, 16, 17, 40}) {
      for (const int64_t k : interesting_widths(dtype)) {
        const BlockMatrix m = random_blocks(dtype, n, k);
        const auto bytes = pack(m, n);
        std::vector<float> out(static_cast<size_t>(k));
        for (int64_t r = 0; r < n; ++r) {
          unpack_row({*encoding_for(dtype), n, k, bytes.data()}, r, out.data());
          ASSERT_TRUE(same_bits(out.data(), m.row(r).data(), k)) << describe(m) << " row " << r;
        }
      }
    }
  }
}

// unpack_strip(panel, strip) against unpack_row of the panel's 16 outputs.
void expect_strip_holds_the_rows(const PackedMatrix& matrix, int64_t panel, int64_t strip) {
  const int64_t first = strip * kStripInputs, inputs = std::min<int64_t>(kStripInputs, matrix.k - first);
  std::vector<float> columns(static_cast<size_t>(inputs * kPanelWidth + 1), -7.0f);
  unpack_strip(matrix, panel, strip, columns.data());
  EXPECT_EQ(columns.back(), -7.0f) << "written beyond the strip";
  std::vector<float> row(static_cast<size_t>(matrix.k)), column(static_cast<size_t>(inputs));
  const PackedMatrix padded{matrix.encoding, matrix.panels() * kPanelWidth, matrix.k, matrix.data};
  for (int64_t o = 0; o < kPanelWidth; ++o) {
    unpack_row(padded, panel * kPanelWidth + o, row.data());
    for (int64_t i = 0; i < inputs; ++i)
      column[static_cast<size_t>(i)] = columns[static_cast<size_t>(i * kPanelWidth + o)];
    ASSERT_TRUE(same_bits(column.data(), row.data() + first, inputs)) << name(matrix.encoding) << " output " << o;
  }
}

TEST(Packed, StripsHoldTheSameValuesAsRows) {
  for (const DType dtype : kFileTypes) {
    for (const int64_t k : interesting_widths(dtype)) {
      const BlockMatrix m = random_blocks(dtype, 21, k);
      const auto bytes = pack(m, 21);
      for (int64_t panel = 0; panel < 2; ++panel)
        for (int64_t strip = 0; strip * kStripInputs < k; ++strip)
          expect_strip_holds_the_rows({*encoding_for(dtype), 21, k, bytes.data()}, panel, strip);
    }
  }
}

TEST(Packed, PiecesGiveTheSameBytesAsOneCallAndNoByteIsLeftOut) {
  for (const DType dtype : kFileTypes) {
    const BlockMatrix m = random_blocks(dtype, 70, interesting_widths(dtype).back());
    const auto whole = pack(m, 70);
    EXPECT_EQ(pack(m, 16, std::byte{0x11}), whole) << info(dtype).name;
    EXPECT_EQ(pack(m, 48, std::byte{0x00}), whole) << info(dtype).name;
  }
}

TEST(Packed, OutputsBeyondTheLastRowAreZero) {
  for (const DType dtype : kFileTypes) {
    for (const int64_t k : interesting_widths(dtype)) {
      const BlockMatrix m = random_blocks(dtype, 17, k);
      const auto bytes = pack(m, 17);
      const PackedMatrix padded{*encoding_for(dtype), 32, k, bytes.data()};  // the padding seen as rows
      const std::vector<float> zeros(static_cast<size_t>(k), 0.0f);
      for (int64_t r = 17; r < 32; ++r) {
        std::vector<float> out(static_cast<size_t>(k), 1.0f);
        unpack_row(padded, r, out.data());
        ASSERT_TRUE(same_bits(out.data(), zeros.data(), k)) << describe(m) << " row " << r;
      }
    }
  }
}

TEST(Packed, PlainPanelsHoldColumns) {
  std::vector<float> w(16 * 2);  // W[n, k] = 100 n + k
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(100 * (i / 2) + i % 2);
  float panel[32];
  pack_rows(DType::kF32, reinterpret_cast<const std::byte*>(w.data()), 0, 16, 16, 2,
            reinterpret_cast<std::byte*>(panel));
  EXPECT_EQ(panel[0], 0.0f);
  EXPECT_EQ(panel[1], 100.0f);
  EXPECT_EQ(panel[16], 1.0f);
  EXPECT_EQ(panel[16 + 15], 1501.0f);
}

/// Codes, scales and minimums of `rows` rows.
struct RandomCodes {
  std::vector<uint8_t> codes;
  std::vector<float> scales, minimums;

  RandomCodes(Encoding encoding, int64_t rows, int64_t k) {
    std::mt19937 random(5);
    const auto real = [&random] { return static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 512; };
    for (int64_t i = 0; i < rows * k; ++i)
      codes.push_back(static_cast<uint8_t>(random() & (encoding == Encoding::kCodes4 ? 15 : 255)));
    if (encoding == Encoding::kF8E4M3)
      for (uint8_t& code : codes) code = (code & 127) == 127 ? 0 : code;  // no NaN
    for (int64_t i = 0; i < rows * k / kCodeGroup; ++i) {
      scales.push_back(real());
      minimums.push_back(real());
    }
  }
  float weight(Encoding encoding, size_t i) const {
    if (encoding == Encoding::kF8E4M3) return scales[i / kCodeGroup] * e4m3_to_f32(codes[i]);
    return scales[i / kCodeGroup] * static_cast<float>(codes[i]) + minimums[i / kCodeGroup];
  }
};

TEST(Packed, CodesComeBackAsScaleTimesCodePlusMinimum) {
  for (const Encoding encoding : {Encoding::kCodes4, Encoding::kCodes8, Encoding::kF8E4M3}) {
    for (const int64_t k : {32, 96, 256, 800}) {
      const int64_t rows = 11;
      const RandomCodes random(encoding, rows, k);
      std::vector<std::byte> panel(static_cast<size_t>(panel_bytes(encoding, k)), std::byte{0x77});
      const float* minimums = encoding == Encoding::kF8E4M3 ? nullptr : random.minimums.data();
      pack_codes(encoding, {rows, random.codes.data(), random.scales.data(), minimums}, k, panel.data());
      const PackedMatrix matrix{encoding, kPanelWidth, k, panel.data()};
      std::vector<float> out(static_cast<size_t>(k)), want(out);
      for (int64_t r = 0; r < kPanelWidth; ++r) {
        for (int64_t i = 0; i < k; ++i)
          want[static_cast<size_t>(i)] = r < rows ? random.weight(encoding, static_cast<size_t>(r * k + i)) : 0.0f;
        unpack_row(matrix, r, out.data());
        ASSERT_TRUE(same_bits(out.data(), want.data(), k)) << name(encoding) << " k " << k << " row " << r;
      }
      for (int64_t strip = 0; strip * kStripInputs < k; ++strip) expect_strip_holds_the_rows(matrix, 0, strip);
    }
  }
}

TEST(Packed, SizesAreTheDocumentedOnes) {
  struct {
    Encoding encoding;
    int64_t smallest, whole;  // strips of one block and of 256 inputs
  } constexpr kSizes[] = {
      {Encoding::kQ8_0, 64 + 512, 256 + 4096},
      {Encoding::kQ4_0, 64 + 256, 256 + 2048},
      {Encoding::kQ4_1, 64 + 256, 512 + 2048},
      {Encoding::kQ5_0, 64 + 256 + 64, 256 + 2048 + 512},
      {Encoding::kQ5_1, 64 + 256 + 64, 512 + 2048 + 512},
      {Encoding::kMXFP4, 64 + 256, 128 + 2048},
      {Encoding::kQ4_K, 256 + 2048, 256 + 2048},
      {Encoding::kQ5_K, 256 + 2048 + 512, 256 + 2048 + 512},
      {Encoding::kQ6_K, 320 + 2048 + 1024, 320 + 2048 + 1024},
      {Encoding::kIQ4_NL, 64 + 256, 256 + 2048},
      {Encoding::kIQ4_XS, 128 + 2048, 128 + 2048},
      {Encoding::kQ2_K, 320 + 1024, 320 + 1024},
      {Encoding::kQ3_K, 256 + 1024 + 512, 256 + 1024 + 512},
      {Encoding::kTQ2_0, 16 * 66, 16 * 66},
      {Encoding::kNVFP4, 16 * 36, 4 * 16 * 36},
      {Encoding::kCodes4, 128 + 256, 1024 + 2048},
      {Encoding::kCodes8, 128 + 512, 1024 + 4096},
      {Encoding::kF8E4M3, 64 + 512, 512 + 4096},
  };
  for (const auto& size : kSizes) {
    const int64_t block = block_inputs(size.encoding);
    EXPECT_EQ(strip_bytes(size.encoding, block), size.smallest) << name(size.encoding);
    EXPECT_EQ(strip_bytes(size.encoding, 256), size.whole) << name(size.encoding);
    EXPECT_EQ(panel_bytes(size.encoding, 512 + block % 256), 2 * size.whole + (block < 256 ? size.smallest : 0));
  }
  EXPECT_EQ(panel_bytes(Encoding::kF32, 2), 128);
  EXPECT_EQ(panel_bytes(Encoding::kBF16, 1), 32);
  EXPECT_EQ(panel_bytes(Encoding::kIQ1_S, 256), 832);  // 800, to whole lines
  EXPECT_EQ(panel_bytes(Encoding::kIQ1_S, 768), 2432);
  EXPECT_EQ(packed_bytes(Encoding::kBF16, 17, 300), 2 * 9600);
  EXPECT_EQ(packed_bytes(Encoding::kMXFP4, 33, 2880), 3 * (11 * 2176 + 64 + 512));
}

TEST(PackedDeathTest, PartsOfBlocksAreAProgrammingError) {
  EXPECT_DEATH(panel_bytes(Encoding::kQ4_K, 288), "internal error");
  EXPECT_DEATH(panel_bytes(Encoding::kMXFP4, 40), "internal error");
  EXPECT_DEATH(strip_bytes(Encoding::kQ8_0, 288), "internal error");
}

TEST(Shape, PrintsAsInHeaders) {
  EXPECT_EQ(Shape({4096, 256}).to_string(), "[4096, 256]");
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ(Shape().elements(), 1);
}

}  // namespace
}  // namespace colibri
