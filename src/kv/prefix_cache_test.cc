#include "kv/prefix_cache.h"

#include "kv/prefix_test_model.h"

namespace colibri::kv {
namespace {

TestModelOptions recurrent_options() {
  TestModelOptions options;
  options.states = {20, 0, 3};
  return options;
}

TEST(PrefixCache, WhatIsRestoredIsWhatWouldBeComputedForEveryKindOfLayerAndType) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
    SCOPED_TRACE(name(type));
    TestModelOptions options;
    options.layers = every_kind();
    options.type = type;
    TestModel model(options);
    ASSERT_EQ(model.prefixes->block_positions(), 128);
    EXPECT_EQ(model.run(prompt_of(700)), 0);
    EXPECT_EQ(model.run(prompt_of(700)), 640);
    EXPECT_EQ(model.run(prompt_of(900, 0, 300)), 256) << "the prompts part within the third block";
    EXPECT_EQ(model.run(prompt_of(900, 0, 300)), 896);
  }
}

TEST(PrefixCache, OnlyWholeBlocksAndNeverTheLastTokenAreRestored) {
  TestModel model;
  model.run(prompt_of(192));
  EXPECT_EQ(model.run(prompt_of(192)), 128) << "its last token must be computed";
  EXPECT_EQ(model.run(prompt_of(193)), 192);
  EXPECT_EQ(model.run(prompt_of(64)), 0);
  EXPECT_EQ(model.run(prompt_of(65)), 64);
  EXPECT_EQ(model.prefixes->restore({}, {}, 0, *model.cache, *model.states), 0);
}

TEST(PrefixCache, AnswersGrowThePrefixOfTheNextTurn) {
  TestModel model;
  TokenIds tokens = prompt_of(130);
  model.run(tokens);
  for (int64_t end = 131; end <= 192; ++end) {
    tokens = prompt_of(end);
    model.compute(tokens, end - 1, end);
    if (end % 64 == 0) model.prefixes->insert({}, tokens, TestModel::kSlot, *model.cache);
  }
  EXPECT_EQ(model.run(prompt_of(250)), 192);
}

TEST(PrefixCache, RecurrentModelsResumeWhereASnapshotWasMade) {
  TestModel model(recurrent_options());
  EXPECT_EQ(model.run(prompt_of(300)), 0);
  EXPECT_EQ(model.run(prompt_of(300)), 256) << "the last border before the end of the prompt";
  const TokenIds parting = prompt_of(400, 0, 150);
  EXPECT_EQ(model.prefixes->find({}, parting).resumable, 0);
  EXPECT_EQ(model.prefixes->find({}, parting).known, 128) << "where prompts part";
  EXPECT_EQ(model.run(parting), 0) << "this one makes a snapshot there";
  EXPECT_EQ(model.run(prompt_of(400, 0, 150, 1)), 128);
}

TEST(PrefixCache, WithoutAttentionSnapshotsAlonePutASequenceBack) {
  TestModelOptions options = recurrent_options();
  options.layers = {{}, {}, {}};
  TestModel model(options);
  EXPECT_EQ(model.run(prompt_of(200)), 0);
  EXPECT_EQ(model.run(prompt_of(200)), 192);
}

TEST(PrefixCache, TheSnapshotUnusedForLongestMakesRoom) {
  TestModelOptions options = recurrent_options();
  options.n_snapshots = 2;
  TestModel model(options);
  model.run(prompt_of(100, 1));
  model.run(prompt_of(100, 2));
  EXPECT_EQ(model.run(prompt_of(100, 1)), 64);
  model.run(prompt_of(100, 3));
  EXPECT_EQ(model.prefixes->find({}, prompt_of(100, 2)).resumable, 0);
  EXPECT_EQ(model.run(prompt_of(100, 1)), 64);
  EXPECT_EQ(model.run(prompt_of(100, 3)), 64);
  EXPECT_EQ(model.prefixes->statistics().snapshots_used, 2);
}

TEST(PrefixCache, NothingIsSharedAcrossKeysAndRopes) {
  TestModel model;
  const TokenIds prompt = prompt_of(200);
  const PrefixScope scopes[] = {{}, {"a", false}, {"b", false}, {"a", true}, {"", true}};
  for (const PrefixScope& scope : scopes) EXPECT_EQ(model.run(prompt, scope), 0);
  for (const PrefixScope& scope : scopes) EXPECT_EQ(model.run(prompt, scope), 192);
}

TEST(PrefixCache, EqualNamesOfOtherTokensAreNoHit) {
  TestModel model;
  model.prefixes->collide_for_test();
  EXPECT_EQ(model.run(prompt_of(200, 1)), 0);
  EXPECT_EQ(model.run(prompt_of(200, 2)), 0);
  EXPECT_EQ(model.run(prompt_of(200, 1), {"tenant"}), 0);
  EXPECT_EQ(model.run(prompt_of(300, 1, 64)), 64) << "the second block of prompt 1 does not follow";
  EXPECT_EQ(model.run(prompt_of(200, 1)), 192);
  EXPECT_EQ(model.run(prompt_of(200, 2)), 192);
}

// A block behind other tokens is another block, even if its own tokens are the same.
TEST(PrefixCache, TheSameTokensElsewhereAreNoHit) {
  TestModel model;
  model.prefixes->collide_for_test();
  TokenIds twice = prompt_of(64);
  twice.insert(twice.end(), twice.begin(), twice.end());
  twice.push_back(1);
  EXPECT_EQ(model.run(twice), 0);
  EXPECT_EQ(model.run(twice), 128);
}

TEST(PrefixCache, EndsOfChainsUnusedForLongestMakeRoom) {
  TestModelOptions options;
  options.n_blocks = 6;
  TestModel model(options);
  model.run(prompt_of(200, 1));                 // 3 blocks
  model.run(prompt_of(200, 2));                 // 3 blocks
  EXPECT_EQ(model.run(prompt_of(100, 1)), 64);  // the beginning of the first is used again, its end is not
  model.run(prompt_of(129, 3));                 // 2 blocks: ends of the first go
  EXPECT_EQ(model.prefixes->find({}, prompt_of(200, 1)).known, 64);
  EXPECT_EQ(model.prefixes->find({}, prompt_of(200, 2)).known, 192);
  EXPECT_EQ(model.run(prompt_of(200, 1)), 64);  // 2 blocks: ends of the second go
  EXPECT_EQ(model.prefixes->find({}, prompt_of(200, 2)).known, 64);
  EXPECT_EQ(model.prefixes->find({}, prompt_of(200, 3)).known, 128);
  EXPECT_EQ(model.prefixes->statistics().evicted, 4);
  EXPECT_EQ(model.prefixes->statistics().blocks_used, 6);
}

TEST(PrefixCache, APrefixLongerThanTheCacheKeepsItsBeginning) {
  TestModelOptions options;
  options.n_blocks = 3;
  TestModel model(options);
  model.run(prompt_of(500));
  EXPECT_EQ(model.prefixes->statistics().refused, 4) << "once for each pass that could not go on";
  EXPECT_EQ(model.run(prompt_of(500)), 192);
}

TEST(PrefixCache, WithoutRoomNothingIsKept) {
  TestModelOptions options;
  options.n_blocks = 0;
  TestModel model(options);
  EXPECT_EQ(model.run(prompt_of(200)), 0);
  EXPECT_EQ(model.run(prompt_of(200)), 0);
}

TEST(PrefixCache, KeysThatAreTooLongShareNothing) {
  TestModel model;
  const std::string longest(PrefixScope::kMaxKeyBytes, 'k'), longer = longest + "k";
  model.run(prompt_of(100), {longest});
  EXPECT_EQ(model.run(prompt_of(100), {longest}), 64);
  model.run(prompt_of(100), {longer});
  EXPECT_EQ(model.run(prompt_of(100), {longer}), 0);
}

// Blocks whose rings have gone on are not kept: they would hold the keys of later positions.
TEST(PrefixCache, WhatARingHasLostIsNotKept) {
  TestModel model;
  const TokenIds tokens = prompt_of(600);
  model.compute(tokens, 0, 600);
  model.prefixes->insert({}, tokens, TestModel::kSlot, *model.cache);
  EXPECT_EQ(model.prefixes->find({}, tokens).known, 0);
  EXPECT_EQ(model.prefixes->statistics().refused, 1);
}

TEST(PrefixCache, StatisticsSayWhatWasSaved) {
  TestModel model;
  model.run(prompt_of(200));
  model.run(prompt_of(200));
  const PrefixStatistics s = model.prefixes->statistics();
  EXPECT_EQ(s.lookups, 2);
  EXPECT_EQ(s.hits, 1);
  EXPECT_EQ(s.hit_tokens, 192);
  EXPECT_EQ(s.inserted, 3);
  EXPECT_EQ(s.blocks_used, 3);
  EXPECT_EQ(s.blocks, 64);
}

TEST(PrefixCache, ABudgetDividedByABlockHoldsThatMany) {
  TestModelOptions options = recurrent_options();
  options.layers = every_kind();
  PrefixGeometry g = TestModel(options).geometry();
  const int64_t block = *PrefixCache::block_bytes(g.kv), snapshot = PrefixCache::snapshot_bytes(g.states);
  for (const int n : {1, 5, 100}) {
    g.n_blocks = n;
    g.n_snapshots = n;
    EXPECT_LE(*PrefixCache::bytes(g), n * (block + snapshot)) << n;
    EXPECT_GE(*PrefixCache::bytes(g), n * (block + snapshot) * 9 / 10) << n;
  }
}

TEST(PrefixCache, BlocksAreWholeTilesAndWholeRunsOfEveryRate) {
  const auto positions = [](std::vector<KvLayer> layers) {
    return PrefixCache::block_positions({std::move(layers), 64});
  };
  EXPECT_EQ(*positions({{1, 16, 16}}), 64);
  EXPECT_EQ(*positions({{1, 16, 16, true, 0, 4}, {1, 16, 16, true, 0, 128}}), 128);
  EXPECT_EQ(*positions({{1, 16, 16, true, 0, 3}}), 192);
  EXPECT_EQ(positions({{1, 16, 16, true, 0, 65536}}).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(positions({{1, 16, 16, false, 0, 4}}).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace colibri::kv
