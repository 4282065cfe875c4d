#include "store/matrix_source.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace colibri::store
