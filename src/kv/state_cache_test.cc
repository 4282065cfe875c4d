#include "kv/state_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri::kv {
namespace {

constexpr int64_t kFloats = 20;

StateCache make_cache(int slots, int checkpoints) {
  return StateCache::create({{kFloats, 0, 3}, slots, checkpoints}).value();
}
void fill(const StateCache& cache, int slot, float value) { std::fill_n(cache.state(slot, 0), kFloats, value); }
float value_of(const StateCache& cache, int slot) { return cache.state(slot, 0)[kFloats - 1]; }

TEST(StateCache, StatesOfSlotsAndLayersAreAlignedDisjointAndInsideThePlannedBytes) {
  const StateGeometry geometry{{kFloats, 0, 3}, 3, 2};
  auto cache = StateCache::create(geometry);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(cache->slot_floats(), 32 + 16);  // each layer rounded up to 64 bytes
  EXPECT_EQ(StateCache::bytes(geometry), (3 + 2) * 48 * 4);
  for (int slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(cache->state(slot, 0)) % 64, 0u);
    EXPECT_EQ(cache->state(slot, 1), nullptr);
    EXPECT_EQ(cache->state(slot, 2) - cache->state(slot, 0), 32);
    EXPECT_EQ(cache->state(slot, 0) - cache->state(0, 0), 48 * slot);
  }
}

TEST(StateCache, ANewSequenceFindsZerosAndNoCheckpointsOfTheLastOne) {
  StateCache cache = make_cache(2, 2);
  fill(cache, 0, 1.0f);
  fill(cache, 1, 2.0f);
  cache.checkpoint(0, 10);
  cache.checkpoint(1, 10);
  cache.reset(0);
  EXPECT_EQ(value_of(cache, 0), 0.0f);
  EXPECT_EQ(cache.resumable(0, 100), 0);
  EXPECT_EQ(value_of(cache, 1), 2.0f);
  EXPECT_EQ(cache.resumable(1, 100), 10);
}

TEST(StateCache, AWholeSlotCanBeSavedAndRestoredIntoAnother) {
  StateCache cache = make_cache(2, 1);
  fill(cache, 0, 5.0f);
  cache.state(0, 2)[2] = 6.0f;
  std::vector<float> kept(static_cast<size_t>(cache.slot_floats()));
  cache.save(0, kept);
  cache.checkpoint(1, 3);
  cache.restore(1, kept);
  EXPECT_EQ(value_of(cache, 1), 5.0f);
  EXPECT_EQ(cache.state(1, 2)[2], 6.0f);
  EXPECT_EQ(cache.resumable(1, 3), 0) << "a checkpoint of the tokens before";
}

TEST(StateCache, ResumesAtCheckpointsAndForgetsThoseBeyond) {
  StateCache cache = make_cache(1, 3);
  for (int64_t position : {8, 16, 24}) {
    fill(cache, 0, static_cast<float>(position));
    cache.checkpoint(0, position);
  }
  EXPECT_EQ(cache.resumable(0, 7), 0);
  EXPECT_EQ(cache.resumable(0, 23), 16);
  cache.resume(0, 16);
  EXPECT_EQ(value_of(cache, 0), 16.0f);
  EXPECT_EQ(cache.resumable(0, 24), 16) << "other tokens may follow position 16 now";
  cache.resume(0, 8);
  EXPECT_EQ(value_of(cache, 0), 8.0f);
  cache.resume(0, 0);
  EXPECT_EQ(value_of(cache, 0), 0.0f);
}

TEST(StateCache, TheCheckpointUnusedForLongestMakesRoom) {
  StateCache cache = make_cache(2, 2);
  fill(cache, 0, 1.0f);
  cache.checkpoint(0, 1);
  fill(cache, 1, 2.0f);
  cache.checkpoint(1, 2);
  cache.resume(0, 1);
  cache.checkpoint(0, 1);  // replaces itself
  fill(cache, 0, 3.0f);
  cache.checkpoint(0, 3);
  EXPECT_EQ(cache.resumable(1, 9), 0);
  EXPECT_EQ(cache.resumable(0, 2), 1);
  EXPECT_EQ(cache.resumable(0, 9), 3);
}

TEST(StateCache, WithoutRoomForCheckpointsOnlyTheBeginningCanBeResumed) {
  StateCache cache = make_cache(1, 0);
  fill(cache, 0, 1.0f);
  cache.checkpoint(0, 4);
  EXPECT_EQ(cache.resumable(0, 4), 0);
  cache.resume(0, 0);
  EXPECT_EQ(value_of(cache, 0), 0.0f);
}

}  // namespace
}  // namespace colibri::kv
