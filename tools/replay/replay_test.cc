#include "replay/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

namespace colibri::replay {
namespace {

// One layer, one expert per step.
Trace sequence(int n_experts, const std::vector<int32_t>& experts) {
  Trace trace{1, n_experts, 1, {}};
  for (const int32_t expert : experts) trace.steps.push_back({1, {{{expert, 1}}}});
  return trace;
}

// The most hits that any choice of victims gives, by trying all.
int64_t most_hits(const std::vector<int32_t>& experts, size_t at, std::vector<int32_t> cache, size_t slots) {
  if (at == experts.size()) return 0;
  if (std::find(cache.begin(), cache.end(), experts[at]) != cache.end())
    return 1 + most_hits(experts, at + 1, cache, slots);
  if (cache.size() < slots) {
    cache.push_back(experts[at]);
    return most_hits(experts, at + 1, cache, slots);
  }
  int64_t best = 0;
  for (int32_t& slot : cache) {
    const int32_t old = std::exchange(slot, experts[at]);
    best = std::max(best, most_hits(experts, at + 1, cache, slots));
    slot = old;
  }
  return best;
}

TEST(Replay, TheOptimumIsWhatTryingEverythingFinds) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> experts(12);
    for (int32_t& expert : experts) expert = static_cast<int32_t>(random() % 5);
    EXPECT_EQ(replay_optimum(sequence(5, experts), 3).all.hits, most_hits(experts, 0, {}, 3));
  }
}

TEST(Replay, LruOfATextbook) {  // hits: 0 1 and the last 2 of them
  const Trace trace = sequence(6, {0, 1, 2, 3, 0, 1, 4, 0, 1, 2, 3, 4});
  EXPECT_EQ(replay(trace, 3, store::PolicyKind::kLru).all.hits, 2);
  EXPECT_EQ(replay(trace, 4, store::PolicyKind::kLru).all.hits, 4);
  EXPECT_EQ(replay(trace, 3, store::PolicyKind::kLru).all.wanted, 12);
}

TEST(Replay, NoPolicyBeatsTheOptimumAndEverythingFitsIsEverythingAfterTheFirstUse) {
  std::mt19937 random(9);
  Trace trace{3, 8, 2, {}};
  for (int step = 0; step < 200; ++step) {
    Step& added = trace.steps.emplace_back(Step{1, {}});
    for (int layer = 0; layer < 3; ++layer) {
      const auto a = static_cast<int32_t>(std::min(random() % 8, random() % 8));
      added.layers.push_back({{a, 1}, {(a + 1) % 8, 1}});
    }
  }
  for (const auto kind : {store::PolicyKind::kLru, store::PolicyKind::kLfu, store::PolicyKind::kAuto}) {
    for (const int64_t slots : {2, 5, 12})
      EXPECT_LE(replay(trace, slots, kind).all.hits, replay_optimum(trace, slots).all.hits);
    EXPECT_EQ(replay(trace, 24, kind).all.hits, replay_optimum(trace, 24).all.hits);
  }
}

TEST(Replay, AStepThatWantsMoreThanFitsComesInWaves) {
  Trace trace{1, 8, 1, {}};
  for (int step = 0; step < 3; ++step) {
    Step& added = trace.steps.emplace_back(Step{8, {{}}});
    for (int32_t expert = 0; expert < 8; ++expert) added.layers[0].push_back({expert, 1});
  }
  EXPECT_EQ(replay(trace, 3, store::PolicyKind::kAuto).all.hits, 2 * 3);
  EXPECT_EQ(replay_optimum(trace, 3).all.hits, 2 * 3);
}

class TraceFile : public testing::Test {
 protected:
  static constexpr const char* kHeader =
      R"({"format":"colibri-trace","version":1,"model":"m","layers":[1,3],"experts":4,"top_k":2})";

  Result<Trace> read(const std::string& text, int64_t step_positions = 0) {
    const std::string path = testing::TempDir() + "colibri_replay_test.trace";
    std::ofstream(path) << text;
    return read_trace(path, step_positions);
  }
};

TEST_F(TraceFile, StepsAreAsTheFileSaysOrCut) {
  const std::string text = std::string(kHeader) + R"(
{"step":0,"layer":1,"position":0,"experts":[0,1]}
{"step":0,"layer":1,"position":1,"experts":[1,2]}
{"step":0,"layer":3,"position":0,"experts":[3,1]}
{"step":0,"layer":3,"position":1,"experts":[3,2]}
{"step":1,"layer":1,"position":2,"experts":[0,3]}
{"step":1,"layer":3,"position":2,"experts":[0,2]}
)";
  const auto whole = read(text);
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_EQ(whole->steps.size(), 2U);
  EXPECT_EQ(whole->steps[0].tokens, 2);
  ASSERT_EQ(whole->steps[0].layers[0].size(), 3U);
  EXPECT_EQ(whole->steps[0].layers[0][1].rows, 2) << "expert 1, chosen by both";
  EXPECT_EQ(whole->steps[1].layers[1].size(), 2U);
  const auto cut = read(text, 1);
  ASSERT_TRUE(cut);
  ASSERT_EQ(cut->steps.size(), 3U);
  EXPECT_EQ(cut->steps[1].tokens, 1);
  EXPECT_EQ(cut->steps[1].layers[1][0].expert, 3);
}

TEST_F(TraceFile, WhatIsWrongIsNamedWithItsLine) {
  const std::string head = std::string(kHeader) + "\n";
  const std::pair<std::string, const char*> cases[] = {
      {"", "no steps"},
      {"{}\n", "line 1: this is no trace"},
      {head, "no steps"},
      {head + "{\"step\":0", "line 2: "},
      {head + R"({"step":0,"layer":2,"position":0,"experts":[0]})", "line 2: layer 2"},
      {head + R"({"step":0,"layer":1,"position":0,"experts":[4]})", "line 2: an expert"},
      {head + R"({"step":0,"layer":1,"position":0,"experts":[-1]})", "line 2: an expert"},
      {head + R"({"step":1,"layer":1,"position":9,"experts":[0]}
{"step":0,"layer":1,"position":0,"experts":[0]})",
       "line 3: steps"},
      {head + R"({"step":0,"layer":1,"position":9,"experts":[0]}
{"step":0,"layer":1,"position":0,"experts":[0]})",
       "line 3: positions"},
  };
  for (const auto& [text, message] : cases) {
    const auto trace = read(text);
    ASSERT_FALSE(trace) << text;
    EXPECT_NE(trace.error().message.find(message), std::string::npos) << trace.error().message;
  }
}

TEST_F(TraceFile, TracesOfDifferentModelsAreNotJoined) {
  Trace trace = sequence(4, {0, 1});
  EXPECT_TRUE(append(trace, sequence(4, {2})));
  EXPECT_EQ(trace.steps.size(), 3U);
  EXPECT_FALSE(append(trace, sequence(5, {2})));
}

}  // namespace
}  // namespace colibri::replay
