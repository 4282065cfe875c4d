#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri::kv {
namespace {

TEST(KvCache, ViewsOfAllSlotsAndLayersAreDisjointAndInsideThePlannedBytes) {
  const KvGeometry geometry{3, 2, 24, 33, 2};
  auto cache = KvCache::create(geometry);
  ASSERT_TRUE(cache.ok());
  std::vector<std::pair<float*, int64_t>> ranges;
  for (int slot = 0; slot < 2; ++slot) {
    for (int layer = 0; layer < 3; ++layer) {
      const KvView view = cache->view(slot, layer);
      EXPECT_EQ(view.capacity, 48);
      ranges.emplace_back(view.keys, view.key_head_floats() * view.kv_heads);
      ranges.emplace_back(view.values, view.value_head_floats() * view.kv_heads);
    }
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_EQ(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
  const auto used = ranges.back().first + ranges.back().second - ranges.front().first;
  EXPECT_EQ(used * static_cast<int64_t>(sizeof(float)), KvCache::bytes(geometry));
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
