#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri::kv {
namespace {

// A full layer, one without attention, a latent one, a ring, keys of an index.
std::vector<KvLayer> mixed_layers() { return {{2, 24, 16}, {}, {1, 80, 64, true}, {2, 24, 24, false, 20}, {1, 40, 0}}; }

TEST(KvCache, ViewsOfAllSlotsAndLayersAreDisjointAndInsideThePlannedBytes) {
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
    const KvGeometry geometry{mixed_layers(), 200, 46, 2, type};
    auto cache = KvCache::create(geometry);
    ASSERT_TRUE(cache.ok());
    std::vector<std::pair<std::byte*, int64_t>> ranges;
    for (int slot = 0; slot < 2; ++slot) {
      for (int layer : {0, 2, 3, 4}) {
        const KvView view = cache->view(slot, layer);
        EXPECT_EQ(view.capacity, layer == 3 ? 128 : 256);
        EXPECT_EQ(view.type, type);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0u);
        ranges.emplace_back(view.data, view.bytes());
      }
      EXPECT_EQ(cache->view(slot, 1).data, nullptr);
    }
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i) EXPECT_EQ(ranges[i - 1].first + ranges[i - 1].second, ranges[i].first);
    EXPECT_EQ(ranges.back().first + ranges.back().second - ranges.front().first, KvCache::bytes(geometry));
  }
}

// 4 KV heads of 128 channels, keys and values: what docs and --kv-type promise for a position.
TEST(KvCache, BytesPerPositionOfEachType) {
  const auto bytes = [](KvType type) { return KvCache::bytes({{{4, 128, 128}}, 64, 1, 1, type}) / 64; };
  EXPECT_EQ(bytes(KvType::kF32), 4096);
  EXPECT_EQ(bytes(KvType::kF16), 2048);
  EXPECT_EQ(bytes(KvType::kQ8), 1024 + 4 * 2 * 4 * 2);
}

TEST(KvCache, LatentLayersAndIndexesStoreKeysOnly) {
  EXPECT_EQ(KvCache::bytes({{{1, 576, 512, true}}, 64, 1, 1}) / 64, 576 * 4);
  EXPECT_EQ(KvCache::bytes({{{1, 128, 0}}, 64, 1, 1}) / 64, 128 * 4);
}

// The first of 29 rows sees 36 positions, itself included, while the 28 after it are written: 64. Never more than the
// capacity.
TEST(KvCache, ARingHoldsTheWindowOfEveryRowOfAPass) {
  const auto positions = [](int64_t window, int64_t rows, int64_t capacity) {
    return KvCache::create({{{1, 16, 16, false, window}}, capacity, rows, 1})->view(0, 0).capacity;
  };
  EXPECT_EQ(positions(36, 29, 1000), 64);
  EXPECT_EQ(positions(36, 30, 1000), 128);
  EXPECT_EQ(positions(36, 500, 100), 128);
  EXPECT_EQ(positions(0, 1, 1000), 1024);
}

// 128 positions lie in the ring of window 36: behind 500 written ones, the oldest is 372.
TEST(KvCache, ASequenceGoesOnWhereItsWindowsAreStillInTheRings) {
  auto cache = KvCache::create({{{1, 16, 16}, {1, 16, 16, false, 36}}, 1000, 64, 1});
  EXPECT_TRUE(cache->holds(407, 500));
  EXPECT_FALSE(cache->holds(406, 500));
  EXPECT_TRUE(cache->holds(0, 128));
  EXPECT_FALSE(cache->holds(0, 129));
  EXPECT_TRUE(KvCache::create({{{1, 16, 16}}, 1000, 64, 1})->holds(1, 1000));
}

TEST(KvCache, EntriesForSeveralPositionsTakeSoMuchLess) {
  const auto positions = [](int64_t capacity, int64_t rate) {
    return KvCache::create({{{1, 16, 16, true, 0, rate}}, capacity, 1, 1})->view(0, 0).capacity;
  };
  EXPECT_EQ(positions(1000, 4), 256);
  EXPECT_EQ(positions(1025, 4), 320);
  EXPECT_EQ(positions(60, 128), 64);
}

TEST(KvCache, ASlotIsHandedOutOnceUntilItIsReleased) {
  auto cache = KvCache::create({{{1, 16, 16}}, 16, 1, 2});
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
