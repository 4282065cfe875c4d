#include "kv/prefix_pool.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace colibri::kv {
namespace {

constexpr int kNone = PrefixPool::kNone;
using State = PrefixPool::State;

class PrefixPoolTest : public testing::Test {
 protected:
  PrefixPoolTest() : pool(PrefixPool::create({2, 64, 16, 4, 2}).value()) {}

  // A block that is told from others by its number.
  int add(int number, int parent = kNone, State state = State::kReady) {
    const TokenIds tokens{number, number};
    return pool.add({static_cast<uint64_t>(number)}, parent, {}, tokens, state);
  }
  bool there(int number, int parent = kNone) const {
    const TokenIds tokens{number, number};
    return pool.find({static_cast<uint64_t>(number)}, parent, {}, tokens) != kNone;
  }

  PrefixPool pool;
};

TEST_F(PrefixPoolTest, BytesOfBlocksAndSnapshotsAreAlignedAndDisjoint) {
  std::vector<std::pair<std::byte*, size_t>> ranges;
  for (int b = 0; b < 4; ++b) ranges.emplace_back(pool.data(b).data(), pool.data(b).size());
  for (int s = 0; s < 2; ++s) {
    const auto bytes = std::as_writable_bytes(pool.snapshot(s));
    ranges.emplace_back(bytes.data(), bytes.size());
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ranges[i].first) % 64, 0u);
    EXPECT_EQ(ranges[i].second, 64u);
  }
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_GE(ranges[i].first, ranges[i - 1].first + 64);
}

TEST_F(PrefixPoolTest, ABlockKnowsAllTokensUpToItsEnd) {
  const int last = add(3, add(2, add(1)));
  EXPECT_EQ(pool.block(last).end, 6);
  TokenIds tokens(6);
  pool.prefix_tokens(last, tokens);
  EXPECT_EQ(tokens, (TokenIds{1, 1, 2, 2, 3, 3}));
}

TEST_F(PrefixPoolTest, ABlockIsFoundBehindItsParentOnly) {
  const int one = add(1), two = add(2);
  add(3, one);
  EXPECT_TRUE(there(3, one));
  EXPECT_FALSE(there(3, two));
  EXPECT_FALSE(there(3));
}

TEST_F(PrefixPoolTest, AParentStaysWhileItHasChildren) {
  const int one = add(1);
  const int two = add(2, one);
  add(3, two);
  add(4);
  pool.touch(two);
  add(5);
  EXPECT_FALSE(there(3, two)) << "the end of the chain, which was used before 4";
  EXPECT_TRUE(there(4));
  add(6);
  EXPECT_FALSE(there(4)) << "1 was used longer ago than 2 once, but carries it";
  EXPECT_TRUE(there(2, one));
  EXPECT_TRUE(there(1));
}

TEST_F(PrefixPoolTest, TouchingTheEndOfAChainMakesAllOfItNew) {
  const int one = add(1);
  const int two = add(2, one);
  add(3);
  add(4);
  pool.touch(two);
  add(5);
  add(6);
  EXPECT_TRUE(there(1));
  EXPECT_TRUE(there(2, one));
}

TEST_F(PrefixPoolTest, WhoeverIsPinnedStays) {
  for (const int number : {1, 2, 3, 4}) ++pool.block(add(number)).n_pins;
  EXPECT_EQ(add(5), kNone);
  for (const int number : {1, 2, 3, 4}) EXPECT_TRUE(there(number)) << number;
}

// Its own parent must not go for a block that is added behind it.
TEST_F(PrefixPoolTest, AFullChainDoesNotGrow) {
  int last = kNone;
  for (const int number : {1, 2, 3, 4}) last = add(number, last);
  EXPECT_EQ(add(5, last), kNone);
  EXPECT_EQ(pool.block(last).n_children, 0);
  EXPECT_NE(add(6), kNone);
  EXPECT_EQ(pool.n_used(), 4);
}

TEST_F(PrefixPoolTest, WhatWaitsForAFailedLoadGoesWithIt) {
  const int one = add(1, kNone, State::kLoading), two = add(2, one, State::kLoading),
            three = add(3, two, State::kLoading);
  for (const int b : {one, two, three}) ++pool.block(b).n_pins;
  const auto finish = [&](int b) {
    --pool.block(b).n_pins;
    pool.give_up(b);
  };
  finish(one);
  EXPECT_FALSE(there(1)) << "nobody may find it any more";
  EXPECT_NE(add(1), kNone) << "it may be computed";
  finish(two);
  EXPECT_EQ(pool.n_used(), 4);
  finish(three);
  EXPECT_EQ(pool.n_used(), 1);
  EXPECT_TRUE(there(1));
}

TEST_F(PrefixPoolTest, SnapshotsGoWithTheirBlocksAndTheOldestMakesRoom) {
  const int one = add(1), two = add(2), three = add(3);
  const int first = pool.take_snapshot(one), second = pool.take_snapshot(two);
  EXPECT_NE(first, second);
  EXPECT_EQ(pool.take_snapshot(one), first);
  pool.touch_snapshot(one);
  EXPECT_EQ(pool.take_snapshot(three), second);
  EXPECT_EQ(pool.block(two).snapshot, kNone);
  pool.remove(one);
  EXPECT_EQ(pool.n_snapshots_used(), 1);
  EXPECT_EQ(pool.take_snapshot(two), first);
}

TEST_F(PrefixPoolTest, ASnapshotOfAPinnedBlockStays) {
  const int one = add(1), two = add(2), three = add(3);
  const int first = pool.take_snapshot(one);
  pool.take_snapshot(two);
  ++pool.block(one).n_pins;
  ++pool.block(two).n_pins;
  EXPECT_EQ(pool.take_snapshot(three), kNone);
  EXPECT_EQ(pool.block(one).snapshot, first);
}

TEST_F(PrefixPoolTest, BlocksThatWaitedToBeWrittenAreCountedWhenTheyGo) {
  for (const int number : {1, 2, 3, 4}) pool.block(add(number)).wanted = number < 3;
  for (const int number : {5, 6, 7}) add(number);
  EXPECT_EQ(pool.evicted(), 3);
  EXPECT_EQ(pool.dropped(), 2);
}

}  // namespace
}  // namespace colibri::kv
