#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri::kv {
namespace {

TEST(KvCache, ViewsOfAllSlotsAndLayersAreDisjointAndInsideThePlannedBytes) {
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
    const KvGeometry geometry{3, 2, 24, 65, 2, type};
    auto cache = KvCache::create(geometry);
    ASSERT_TRUE(cache.ok());
    std::vector<std::pair<std::byte*, int64_t>> ranges;
    for (int slot = 0; slot < 2; ++slot) {
      for (int layer = 0; layer < 3; ++layer) {
        const KvView view = cache->view(slot, layer);
        EXPECT_EQ(view.capacity, 128);
        EXPECT_EQ(view.type, type);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0u);
        ranges.emplace_back(view.data, view.bytes());
      }
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) EXPECT_EQ(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
    EXPECT_EQ(ranges.back().first + ranges.back().second - ranges.front().first, KvCache::bytes(geometry));
  }
}

// 4 KV heads of 128 channels, keys and values: what docs and --kv-type promise for a position.
TEST(KvCache, BytesPerPositionOfEachType) {
  const auto bytes = [](KvType type) { return KvCache::bytes({1, 4, 128, 64, 1, type}) / 64; };
  EXPECT_EQ(bytes(KvType::kF32), 4096);
  EXPECT_EQ(bytes(KvType::kF16), 2048);
  EXPECT_EQ(bytes(KvType::kQ8), 1024 + 4 * 2 * 4 * 2);
}

TEST(KvCache, ASlotIsHandedOutOnceUntilItIsReleased) {
  auto cache = KvCache::create({1, 1, 16, 16, 2});
  ASSERT_TRUE(cache.ok());
  const int a = cache->take_slot();
  const int b = cache->take_slot();
  EXPECT_NE(a, b);
  EXPECT_EQ(cache->take_slot(), -1);
  cache->release_slot(a);
  EXPECT_EQ(cache->take_slot(), a);
}

}  // namespace
}  // namespace colibri::kv
