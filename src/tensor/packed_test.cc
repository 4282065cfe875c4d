#include "tensor/packed.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace colibri {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0};

struct Matrix {
  DType dtype;
  int64_t n, k;
  std::vector<std::byte> bytes;  // row-major, as in a file

  int64_t row_bytes() const { return k / info(dtype).block_elements * info(dtype).block_bytes; }
  std::vector<float> row(int64_t r) const {
    std::vector<float> out(static_cast<size_t>(k));
    convert_to_f32(dtype, bytes.data() + r * row_bytes(), k, out.data());
    return out;
  }
};

Matrix random_matrix(DType dtype, int64_t n, int64_t k) {
  Matrix m{dtype, n, k, {}};
  m.bytes.resize(static_cast<size_t>(n * m.row_bytes()));
  std::mt19937 random(7);
  for (std::byte& b : m.bytes) b = static_cast<std::byte>(random());
  return m;
}

std::vector<std::byte> pack(const Matrix& m, int64_t rows_at_once) {
  const Encoding encoding = *encoding_for(m.dtype);
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(encoding, m.n, m.k)), std::byte{0xee});
  for (int64_t first = 0; first < m.n; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, m.n - first);
    pack_rows(m.dtype, m.bytes.data() + first * m.row_bytes(), first, count, m.n, m.k, packed.data());
  }
  return packed;
}

TEST(Packed, TranscodingLosesNothing) {
  for (DType dtype : kTypes) {
    for (int64_t n : {1, 16, 17, 40}) {
      for (int64_t k : {32, 96}) {
        const Matrix m = random_matrix(dtype, n, k);
        const auto bytes = pack(m, n);
        const PackedMatrix packed{*encoding_for(dtype), n, k, bytes.data()};
        for (int64_t r = 0; r < n; ++r) {
          std::vector<float> out(static_cast<size_t>(k));
          unpack_row(packed, r, out.data());
          const std::vector<float> want = m.row(r);  // compared as bits: random halves hold NaN
          ASSERT_EQ(std::memcmp(out.data(), want.data(), out.size() * 4), 0) << info(dtype).name << " row " << r;
        }
      }
    }
  }
}

TEST(Packed, OddWidthsOfPlainTypes) {
  const Matrix m = random_matrix(DType::kBF16, 19, 37);
  const auto bytes = pack(m, 19);
  std::vector<float> out(37);
  unpack_row({Encoding::kBF16, 19, 37, bytes.data()}, 18, out.data());
  const std::vector<float> want = m.row(18);
  EXPECT_EQ(std::memcmp(out.data(), want.data(), out.size() * 4), 0);
}

TEST(Packed, PiecesGiveTheSameBytesAsOneCall) {
  for (DType dtype : kTypes) {
    const Matrix m = random_matrix(dtype, 70, 64);
    EXPECT_EQ(pack(m, 16), pack(m, 70)) << info(dtype).name;
  }
}

TEST(Packed, OutputsBeyondTheLastRowAreZero) {
  for (DType dtype : kTypes) {
    const Matrix m = random_matrix(dtype, 17, 32);
    const auto bytes = pack(m, 17);
    const PackedMatrix padded{*encoding_for(dtype), 32, 32, bytes.data()};  // the padding seen as rows
    for (int64_t r = 17; r < 32; ++r) {
      std::vector<float> out(32, 1.0f);
      unpack_row(padded, r, out.data());
      EXPECT_EQ(out, std::vector<float>(32, 0.0f)) << info(dtype).name << " row " << r;
    }
  }
}

TEST(Packed, LayoutIsTheOneTheKernelsRead) {
  std::vector<float> w(16 * 2);  // W[n, k] = 100 n + k
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(100 * (i / 2) + i % 2);
  float panel[32];
  pack_rows(DType::kF32, reinterpret_cast<const std::byte*>(w.data()), 0, 16, 16, 2,
            reinterpret_cast<std::byte*>(panel));
  EXPECT_EQ(panel[0], 0.0f);
  EXPECT_EQ(panel[1], 100.0f);
  EXPECT_EQ(panel[16], 1.0f);
  EXPECT_EQ(panel[16 + 15], 1501.0f);
  EXPECT_EQ(panel_bytes(Encoding::kF32, 2), 128);
  EXPECT_EQ(panel_bytes(Encoding::kQ8_0, 64), 17 * 64);
  EXPECT_EQ(packed_bytes(Encoding::kBF16, 17, 10), 2 * 320);
}

TEST(Packed, Q8GroupsHoldScalesThenColumns) {
  Matrix m{DType::kQ8_0, 2, 32, std::vector<std::byte>(68)};
  for (int i = 0; i < 68; ++i) m.bytes[static_cast<size_t>(i)] = static_cast<std::byte>(i);
  const auto bytes = pack(m, 2);
  EXPECT_EQ(bytes[2], std::byte{34});       // scale of row 1
  EXPECT_EQ(bytes[32], std::byte{2});       // input 0 of row 0
  EXPECT_EQ(bytes[32 + 1], std::byte{36});  // input 0 of row 1
  EXPECT_EQ(bytes[32 + 16 * 31], std::byte{33});
}

TEST(Shape, PrintsAsInHeaders) {
  EXPECT_EQ(Shape({4096, 256}).to_string(), "[4096, 256]");
  EXPECT_EQ(Shape().to_string(), "[]");
  EXPECT_EQ(Shape().elements(), 1);
}

}  // namespace
}  // namespace colibri
