#include "store/matrix_source.h"

#include <gtest/gtest.h>

#include <array>

#include "platform/memory.h"
#include "store/matrix_file.h"
namespace colibri::store {
namespace {

constexpr int64_t kRows = 72, kInputs = 20;

// Element (r, c) of "m" is 100 r + c.
class OneMatrix : public MatrixFile {
 public:
  OneMatrix() : MatrixFile({{"m", kRows, kInputs}}) {}
};

int64_t bytes_for(const MatrixSource& source) {
  StagingNeed need;
  need.cover(source);
  return need.bytes();
}

// Loads rows [first, first + n) with `staging` bytes and returns the first value of each canonical row.
std::vector<float> load(const formats::TensorCatalog& catalog, MatrixSource source, int64_t staging) {
  platform::Arena arena = *platform::Arena::allocate(source.packed_size());
  std::vector<std::byte> buffer(static_cast<size_t>(staging));
  std::byte* data = arena.take(source.packed_size());
  EXPECT_TRUE(load_matrix(catalog, source, buffer, data).ok());
  const PackedMatrix packed{source.encoding, source.n, source.k, data};
  std::vector<float> first_values, row(kInputs);
  for (int64_t r = 0; r < source.n; ++r) {
    unpack_row(packed, r, row.data());
    EXPECT_EQ(row[kInputs - 1], row[0] + kInputs - 1);
    first_values.push_back(row[0]);
  }
  return first_values;
}

TEST(MatrixSource, RowsAreTheSameHoweverSmallTheStagingMemory) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource source{catalog.find("m"), 3, 50, kInputs, Encoding::kF32, 0};
  const std::vector<float> whole = load(catalog, source, bytes_for(source));
  for (int64_t r = 0; r < 50; ++r) EXPECT_EQ(whole[static_cast<size_t>(r)], static_cast<float>(100 * (r + 3)));
  EXPECT_EQ(load(catalog, source, kPanelWidth * kInputs * 4), whole);
}

TEST(MatrixSource, InterleavedHeadsArePutBackIntoHalves) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource source{catalog.find("m"), 0, kRows, kInputs, Encoding::kF32, 3};  // heads of 24 rows
  const std::vector<float> got = load(catalog, source, bytes_for(source));
  for (int64_t head = 0; head < 3; ++head)
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(got[static_cast<size_t>(head * 24 + i)], static_cast<float>(100 * (head * 24 + 2 * i)));
      EXPECT_EQ(got[static_cast<size_t>(head * 24 + 12 + i)], static_cast<float>(100 * (head * 24 + 2 * i + 1)));
    }
}

TEST(MatrixSource, InterleavedHeadsAreTheSameByPieces) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource source{catalog.find("m"), 0, kRows, kInputs, Encoding::kF32, 3};  // pieces of two heads: 48 rows
  EXPECT_EQ(load(catalog, source, (48 + kPanelWidth) * kInputs * 4), load(catalog, source, bytes_for(source)));
}

// Values of the canonical matrix [n, k], loaded with `staging` bytes.
std::vector<float> load_all(const formats::TensorCatalog& catalog, const MatrixSource& source, int64_t staging) {
  platform::Arena arena = *platform::Arena::allocate(source.packed_size());
  std::vector<std::byte> buffer(static_cast<size_t>(staging));
  std::byte* data = arena.take(source.packed_size());
  EXPECT_TRUE(load_matrix(catalog, source, buffer, data).ok());
  std::vector<float> values(static_cast<size_t>(source.n * source.k));
  for (int64_t r = 0; r < source.n; ++r)
    unpack_row({source.encoding, source.n, source.k, data}, r, values.data() + r * source.k);
  return values;
}

TEST(MatrixSource, BlocksOfRowsAreGatheredInOrderWithLittleAndMuchMemory) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  for (const auto& [first, n, block, stride] :
       {std::array<int64_t, 4>{0, 36, 1, 2}, {1, 36, 1, 2}, {4, 40, 5, 8}, {0, 72, 9, 9}, {6, 20, 40, 50}}) {
    const MatrixSource source{catalog.find("m"), first, n, kInputs, Encoding::kF32, 0, block, stride};
    const std::vector<float> got = load_all(catalog, source, bytes_for(source));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < kInputs; ++j)
        ASSERT_EQ(got[static_cast<size_t>(i * kInputs + j)],
                  static_cast<float>(100 * (first + i / block * stride + i % block) + j));
    const int64_t least = bytes_for(source) - platform::aligned_bytes(n * kInputs * 4);
    EXPECT_EQ(load_all(catalog, source, std::max<int64_t>(0, least) + least_read_bytes(source) + 4096), got);
  }
}

TEST(MatrixSource, InterleavedHeadsInBlocksAreHalvesOfTheBlocksRows) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  // Three heads of 12 rows, 24 apart: q before gate, in the order of interleaved RoPE.
  const MatrixSource source{catalog.find("m"), 0, 36, kInputs, Encoding::kF32, 3, 12, 24};
  const std::vector<float> got = load(catalog, source, bytes_for(source));
  for (int64_t head = 0; head < 3; ++head)
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_EQ(got[static_cast<size_t>(head * 12 + i)], static_cast<float>(100 * (head * 24 + i % 6 * 2 + i / 6)));
}

TEST(MatrixSource, ColumnsBecomeRowsAndInputsAreARangeOfTheFilesRows) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource whole{catalog.find("m"), 0, kRows, kInputs, Encoding::kF32, 0};
  for (const auto& [first, n, block, stride] :
       {std::array<int64_t, 4>{0, 20, 0, 0}, {1, 10, 1, 2}, {2, 17, 0, 0}, {0, 12, 3, 5}}) {
    const MatrixSource source = select_transposed(whole, first, n, 30, 41, block, stride);
    const std::vector<float> got = load_all(catalog, source, bytes_for(source));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < 41; ++j) {
        const int64_t column = first + (block == 0 ? i : i / block * stride + i % block);
        ASSERT_EQ(got[static_cast<size_t>(i * 41 + j)], static_cast<float>(100 * (30 + j) + column));
      }
    EXPECT_EQ(load_all(catalog, source, least_read_bytes(source) + 64), got);
  }
}

TEST(MatrixSource, ATransposeOfATransposeIsAPartOfTheRowsAndColumns) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  MatrixSource columns{catalog.find("m"), 0, kInputs, kRows, Encoding::kF32, 0};
  columns.transposed = true;
  columns.file_width = kInputs;
  const MatrixSource source = select_transposed(columns, 7, 33, 5, 11);
  const std::vector<float> got = load_all(catalog, source, bytes_for(source));
  for (int64_t i = 0; i < 33; ++i)
    for (int64_t j = 0; j < 11; ++j)
      ASSERT_EQ(got[static_cast<size_t>(i * 11 + j)], static_cast<float>(100 * (7 + i) + 5 + j));
}

TEST(MatrixSource, MatricesBetweenEachOthersRowsShareTheirPieces) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource gate{catalog.find("m"), 0, 36, kInputs, Encoding::kF32, 0, 1, 2};
  MatrixSource up = gate, other = gate;
  up.first_row = 1;
  other.first_row = 36;
  EXPECT_TRUE(interleaved_with(gate, up));
  EXPECT_FALSE(interleaved_with(gate, other));
  const int64_t budget = least_read_bytes(gate), length = piece_length(gate, budget);
  EXPECT_EQ(length, kPanelWidth);
  for (int64_t first = 0; first < 36; first += length) {
    const Extents both = extents_of_both(gate, up, first, std::min(length, 36 - first));
    EXPECT_LE(both.list[0].bytes, budget);
    EXPECT_EQ(both.list[0].first, 2 * first * kInputs * 4);
  }
}

}  // namespace
}  // namespace colibri::store
