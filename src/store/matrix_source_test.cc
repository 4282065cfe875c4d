#include "store/matrix_source.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "store/expert_store.h"

namespace colibri::store {
namespace {

constexpr int64_t kRows = 72, kInputs = 20;

// A safetensors file with one F32 matrix whose element (r, c) is 100 r + c.
class OneMatrix {
 public:
  OneMatrix()
      : path_(std::filesystem::temp_directory_path() /
              ("colibri_store_test_" + std::to_string(::getpid()) + ".safetensors")) {
    const std::string header = "{\"m\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(kRows) + "," +
                               std::to_string(kInputs) + "],\"data_offsets\":[0," +
                               std::to_string(kRows * kInputs * 4) + "]}}";
    const uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << header;
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kInputs; ++c) {
        const auto value = static_cast<float>(100 * r + c);
        file.write(reinterpret_cast<const char*>(&value), 4);
      }
  }
  ~OneMatrix() { std::filesystem::remove(path_); }
  formats::TensorCatalog open() const { return *formats::open_catalog(path_.string()); }

 private:
  std::filesystem::path path_;
};

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
  const std::vector<float> whole = load(catalog, source, staging_bytes(source));
  for (int64_t r = 0; r < 50; ++r) EXPECT_EQ(whole[static_cast<size_t>(r)], static_cast<float>(100 * (r + 3)));
  EXPECT_EQ(load(catalog, source, kPanelWidth * kInputs * 4), whole);
}

TEST(MatrixSource, InterleavedHeadsArePutBackIntoHalves) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource source{catalog.find("m"), 0, kRows, kInputs, Encoding::kF32, 3};  // heads of 24 rows
  const std::vector<float> got = load(catalog, source, staging_bytes(source));
  for (int64_t head = 0; head < 3; ++head)
    for (int64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(got[static_cast<size_t>(head * 24 + i)], static_cast<float>(100 * (head * 24 + 2 * i)));
      EXPECT_EQ(got[static_cast<size_t>(head * 24 + 12 + i)], static_cast<float>(100 * (head * 24 + 2 * i + 1)));
    }
}

TEST(ResidentStore, LeasesGiveTheExpertsThatWereLoadedAndActivationsAreCounted) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const formats::TensorInfo* m = catalog.find("m");
  std::vector<ExpertSource> experts;
  for (int64_t e = 0; e < 4; ++e) {
    const MatrixSource part{m, e * 16, 16, kInputs, Encoding::kF32, 0};
    experts.push_back({part, part, part});
  }
  platform::Arena arena = *platform::Arena::allocate(resident_store_bytes(experts));
  std::vector<std::byte> staging(static_cast<size_t>(staging_bytes(experts[0].gate)));
  auto store = open_resident_store(catalog, experts, 2, 2, arena, staging, {});
  ASSERT_TRUE(store.ok()) << store.error().message;
  const std::vector<int32_t> ids = {1, 0, 1};
  const auto leases = (*store)->acquire(1, ids);
  ASSERT_TRUE(leases.ok());
  std::vector<float> row(kInputs);
  unpack_row(leases->by_expert()[1]->down, 0, row.data());
  EXPECT_EQ(row[0], 100 * 48);  // layer 1, expert 1 is the fourth part
  EXPECT_EQ((*store)->activations(1, 1), 2u);
  EXPECT_EQ((*store)->activations(1, 0), 1u);
  EXPECT_EQ((*store)->activations(0, 1), 0u);
}

TEST(ResidentStore, LoadingStopsWhenProgressSaysSo) {
  const OneMatrix file;
  const formats::TensorCatalog catalog = file.open();
  const MatrixSource part{catalog.find("m"), 0, 16, kInputs, Encoding::kF32, 0};
  const std::vector<ExpertSource> experts = {{part, part, part}};
  platform::Arena arena = *platform::Arena::allocate(resident_store_bytes(experts));
  std::vector<std::byte> staging(static_cast<size_t>(staging_bytes(part)));
  const auto store = open_resident_store(catalog, experts, 1, 1, arena, staging, [](int64_t) { return false; });
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace colibri::store
