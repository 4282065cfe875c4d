#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace colibri {
namespace {

TEST(DType, EveryRowIsUniqueAndHasASize) {
  std::set<std::string_view> names;
  std::set<int> ids;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const DTypeInfo& row = info(static_cast<DType>(i));
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.block_elements, 0) << row.name;
    EXPECT_GT(row.block_bytes, 0) << row.name;
    if (row.gguf_id >= 0) {
      EXPECT_TRUE(ids.insert(row.gguf_id).second) << row.name;
    }
  }
}

TEST(DType, LookupByFileIdLeadsBackToTheRow) {
  int found = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const auto dtype = dtype_from_gguf(id);
    if (!dtype) continue;
    EXPECT_EQ(info(*dtype).gguf_id, static_cast<int>(id));
    EXPECT_TRUE(removed_gguf_type(id).empty());
    ++found;
  }
  EXPECT_EQ(found, 34);  // F64..I8, the 26 block types
}

TEST(DType, UnknownAndRemovedIdsAreNotGuessed) {
  for (uint32_t id : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    EXPECT_FALSE(dtype_from_gguf(id)) << id;
    EXPECT_FALSE(removed_gguf_type(id).empty()) << id;
  }
  EXPECT_FALSE(dtype_from_gguf(42));
  EXPECT_FALSE(dtype_from_gguf(0xffffffffu));  // -1 marks "not in GGUF" and must not match
  EXPECT_TRUE(removed_gguf_type(42).empty());
}

TEST(DType, SafetensorsNamesAreExact) {
  EXPECT_EQ(dtype_from_safetensors("BF16"), DType::kBF16);
  EXPECT_EQ(dtype_from_safetensors("F8_E4M3"), DType::kF8E4M3);
  EXPECT_FALSE(dtype_from_safetensors("bf16"));
  EXPECT_FALSE(dtype_from_safetensors(""));
  EXPECT_FALSE(dtype_from_safetensors("Q8_0"));
}

TEST(DType, BlockSizesOfTheUsualTypes) {
  EXPECT_EQ(info(DType::kQ8_0).block_bytes, 34);
  EXPECT_EQ(info(DType::kQ4_K).block_bytes, 144);
  EXPECT_EQ(info(DType::kQ6_K).block_bytes, 210);
  EXPECT_EQ(info(DType::kMXFP4).block_bytes, 17);
  EXPECT_EQ(info(DType::kF4).block_elements, 2);
}

}  // namespace
}  // namespace colibri
