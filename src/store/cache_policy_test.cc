#include "store/cache_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>

namespace colibri::store {
namespace {

constexpr StepPosition kDecoding{};

CacheShape one_class(int n_layers, int n_experts, int64_t slots) {
  return {n_layers, n_experts, std::vector<int>(static_cast<size_t>(n_layers), 0), {slots}};
}

/// A cache around the policy, as the store is: every use of a resident expert hits, a miss takes a slot.
class Cache {
 public:
  Cache(PolicyKind kind, int n_layers, int n_experts, int64_t slots)
      : n_experts_(n_experts), slots_(slots), policy_(kind, 100, one_class(n_layers, n_experts, slots)) {}

  CachePolicy& policy() { return policy_; }
  bool resident(int layer, int expert) const { return resident_.contains(layer * n_experts_ + expert); }

  /// Hits of a step that wants `wanted` of `layer`.
  int64_t want(int layer, const std::vector<int>& wanted, bool sweeping = false) {
    int64_t hits = 0;
    for (const int expert : wanted) {
      policy_.use(layer, expert, 1);
      if (!resident(layer, expert)) continue;
      policy_.erase(layer, expert);
      ++hits;
    }
    for (const int expert : wanted)
      if (!resident(layer, expert)) take_slot(layer, expert, sweeping);
    for (const int expert : wanted) policy_.insert(layer, expert);
    return hits;
  }

 private:
  void take_slot(int layer, int expert, bool sweeping) {
    if (static_cast<int64_t>(resident_.size()) == slots_) {
      const std::optional<int> gone = policy_.victim(layer, {layer, sweeping});
      ASSERT_TRUE(gone);
      policy_.erase(*gone / n_experts_, *gone % n_experts_);
      resident_.erase(*gone);
    }
    resident_.insert(layer * n_experts_ + expert);
  }

  int n_experts_;
  int64_t slots_;
  CachePolicy policy_;
  std::set<int> resident_;
};

std::vector<int> distinct(std::mt19937& random, int n, int k, const std::function<double(int)>& weight) {
  std::vector<std::pair<double, int>> order;
  std::uniform_real_distribution<double> uniform(1e-9, 1);
  for (int e = 0; e < n; ++e) order.emplace_back(-std::log(uniform(random)) / weight(e), e);
  std::sort(order.begin(), order.end());
  std::vector<int> chosen;
  for (int i = 0; i < k; ++i) chosen.push_back(order[static_cast<size_t>(i)].second);
  return chosen;
}

double uniform_weight(int) { return 1; }

/// Random uses, insertions and removals; `score` is the key that the definition gives, from the list of all uses.
struct Use {
  int64_t time, rows, order;
};
using Score = std::function<std::pair<double, double>(const std::vector<Use>&, int64_t now)>;

void expect_least_score_goes(PolicyKind kind, const Score& score, double slack) {
  constexpr int kLayers = 3, kExperts = 9;
  CachePolicy policy(kind, 100, one_class(kLayers, kExperts, 1));  // one slot: no floors
  std::mt19937 random(7);
  std::vector<std::vector<Use>> uses(kLayers * kExperts);
  std::set<int> evictable;
  int64_t now = 0, order = 0;
  for (int step = 0; step < 3000; ++step) {
    if (step % 4 == 0) policy.begin_step(1), ++now;
    const auto id = static_cast<int>(random() % uses.size());
    const auto rows = static_cast<int64_t>(random() % 3 + 1);
    policy.use(id / kExperts, id % kExperts, rows);
    uses[static_cast<size_t>(id)].push_back({now, rows, ++order});
    const auto other = static_cast<int>(random() % uses.size());
    if (evictable.erase(other) == 1) {
      policy.erase(other / kExperts, other % kExperts);
    } else {
      policy.insert(other / kExperts, other % kExperts);
      evictable.insert(other);
    }
    const std::optional<int> chosen = policy.victim(1, kDecoding);
    ASSERT_EQ(chosen.has_value(), !evictable.empty());
    if (!chosen) continue;
    ASSERT_TRUE(evictable.contains(*chosen));
    const auto its = score(uses[static_cast<size_t>(*chosen)], now);
    for (const int candidate : evictable) {
      const auto theirs = score(uses[static_cast<size_t>(candidate)], now);
      ASSERT_LE(its.first, theirs.first * slack) << "step " << step;
      if (slack == 1 && its.first == theirs.first) {
        ASSERT_LE(its.second, theirs.second) << "step " << step;
      }
    }
  }
}

double last_use(const std::vector<Use>& uses) { return uses.empty() ? 0 : static_cast<double>(uses.back().order); }

TEST(CachePolicy, LruLetsTheLongestUnusedGo) {
  expect_least_score_goes(
      PolicyKind::kLru, [](const auto& uses, int64_t) { return std::pair(last_use(uses), 0.0); }, 1);
}

TEST(CachePolicy, LfuLetsTheLeastUsedGoAndAmongEqualsTheLongestUnused) {
  expect_least_score_goes(
      PolicyKind::kLfu,
      [](const auto& uses, int64_t) {
        double count = 0;
        for (const Use& use : uses) count += static_cast<double>(use.rows);
        return std::pair(count, last_use(uses));
      },
      1);
}

TEST(CachePolicy, AutoLetsTheLeastFadedUsesGoButForTheLayersPlace) {
  expect_least_score_goes(
      PolicyKind::kAuto,
      [](const auto& uses, int64_t now) {
        double sum = 0;
        for (const Use& use : uses)
          sum += static_cast<double>(use.rows) * std::exp2(-static_cast<double>(now - use.time) / kHalfLifeTokens);
        return std::pair(sum, 0.0);
      },
      std::exp2(kPassedBits));
}

TEST(CachePolicy, VictimsComeFromTheClassOfTheLayer) {
  CachePolicy policy(PolicyKind::kLru, 100, {3, 4, {0, 1, 0}, {4, 4}});
  policy.insert(1, 2);
  EXPECT_EQ(policy.victim(0, kDecoding), std::nullopt);
  EXPECT_EQ(policy.victim(1, kDecoding), 1 * 4 + 2);
  policy.insert(2, 3);
  EXPECT_EQ(policy.victim(0, kDecoding), 2 * 4 + 3);
}

TEST(CachePolicy, AHeldExpertNeverGoes) {
  CachePolicy policy(PolicyKind::kAuto, 100, one_class(1, 4, 4));
  for (int e = 0; e < 4; ++e) policy.insert(0, e);
  for (int e = 0; e < 4; ++e) {
    const std::optional<int> next = policy.victim(0, kDecoding);
    ASSERT_EQ(next, e);  // never used, any of them: by number
    policy.erase(0, e);
  }
  EXPECT_EQ(policy.victim(0, kDecoding), std::nullopt);
}

TEST(CachePolicy, ALayerKeepsItsFloorWhileOthersHaveMore) {
  CachePolicy policy(PolicyKind::kAuto, 100, one_class(2, 64, 64));
  const auto floor = static_cast<int>(32 * kFloorOfFairShare);
  ASSERT_GT(floor, 0);
  policy.begin_step(1);
  for (int e = 0; e < 60; ++e) policy.use(0, e, 50), policy.insert(0, e);
  for (int e = 0; e < floor; ++e) policy.use(1, e, 1), policy.insert(1, e);
  EXPECT_EQ(policy.victim(0, kDecoding).value() / 64, 0) << "the colder layer is at its floor";
  EXPECT_EQ(policy.victim(1, kDecoding).value() / 64, 1) << "its own experts a layer may always replace";
  policy.insert(1, floor);
  EXPECT_EQ(policy.victim(0, kDecoding), 64 + floor) << "above the floor the coldest goes";
  for (int e = 0; e < 60; ++e) policy.erase(0, e);
  policy.erase(1, floor);
  EXPECT_EQ(policy.victim(0, kDecoding).value() / 64, 1) << "a floor never makes a request fail";
}

TEST(CachePolicy, OfEquallyUsedExpertsThoseOfTheLayerJustPassedGoFirst) {
  CachePolicy policy(PolicyKind::kAuto, 100, one_class(4, 2, 4));
  policy.begin_step(1);
  for (int layer = 0; layer < 4; ++layer) policy.use(layer, 0, 4), policy.insert(layer, 0);
  for (int layer = 0; layer < 4; ++layer) EXPECT_EQ(policy.victim(layer, {layer, false}), layer * 2);
  policy.use(2, 0, 8);
  EXPECT_EQ(policy.victim(2, {2, false}), 1 * 2) << "three times the uses outweigh the place";
}

TEST(CachePolicy, ASweepTakesFromTheLayersItHasPassed) {
  CachePolicy policy(PolicyKind::kAuto, 100, one_class(3, 4, 12));
  policy.begin_step(1);
  policy.use(0, 1, 9);
  policy.use(1, 2, 1);
  policy.use(2, 3, 5);
  policy.insert(0, 1), policy.insert(1, 2), policy.insert(2, 3);
  EXPECT_EQ(policy.victim(0, {0, true}), 0 * 4 + 1) << "hotter, but the others are still to be used";
  EXPECT_EQ(policy.victim(1, {1, true}), 1 * 4 + 2) << "the coldest of those passed";
  policy.erase(0, 1), policy.erase(1, 2);
  EXPECT_EQ(policy.victim(1, {1, true}), 2 * 4 + 3) << "nothing else is left";
}

// A pass over all experts, again and again: LRU throws out just what comes next.
TEST(CachePolicy, ASweepHitsWhatFits) {
  constexpr int kLayers = 4, kExperts = 16, kSlots = 24, kPasses = 5;
  std::vector<int> all;
  for (int e = 0; e < kExperts; ++e) all.push_back(e);
  Cache cache(PolicyKind::kAuto, kLayers, kExperts, kSlots);
  for (int pass = 0; pass < kPasses; ++pass) {
    cache.policy().begin_step(512);
    int64_t hits = 0;
    for (int layer = 0; layer < kLayers; ++layer) hits += cache.want(layer, all, true);
    EXPECT_GE(hits, pass == 0 ? 0 : kSlots - kExperts) << "pass " << pass;
  }
}

int64_t hits_of_random_tokens(PolicyKind kind, int64_t slots, const std::function<double(int)>& weight) {
  constexpr int kLayers = 12, kExperts = 128, kTopK = 8, kTokens = 300, kWarmUp = 100;
  Cache cache(kind, kLayers, kExperts, slots);
  std::mt19937 random(3);
  int64_t hits = 0;
  for (int token = 0; token < kTokens; ++token) {
    cache.policy().begin_step(1);
    for (int layer = 0; layer < kLayers; ++layer) {
      const int64_t found = cache.want(layer, distinct(random, kExperts, kTopK, weight));
      hits += token < kWarmUp ? 0 : found;
    }
  }
  return hits * 1000 / ((kTokens - kWarmUp) * kLayers * kTopK);  // thousandths
}

TEST(CachePolicy, UniformRoutingHitsTheFractionThatFits) {
  EXPECT_NEAR(static_cast<double>(hits_of_random_tokens(PolicyKind::kAuto, 768, uniform_weight)), 500, 20);
}

// 96 experts a token and 48 slots: LRU finds nothing, ever.
TEST(CachePolicy, AutoHasNoCliffBelowTheDemandOfOneToken) {
  const auto skewed = [](int e) { return 1.0 / (1 + e); };
  EXPECT_LT(hits_of_random_tokens(PolicyKind::kLru, 48, skewed), 20);
  EXPECT_GT(hits_of_random_tokens(PolicyKind::kAuto, 48, skewed), 250);
}

TEST(CachePolicy, SpeculationNeverReplacesAHotterExpert) {
  for (const PolicyKind kind : {PolicyKind::kAuto, PolicyKind::kLru, PolicyKind::kLfu}) {
    CachePolicy policy(kind, 100, one_class(1, 4, 2));
    policy.begin_step(1);
    policy.use(0, 0, 3);
    policy.use(0, 1, 2);
    EXPECT_TRUE(policy.worth_more(0, 1));
    EXPECT_FALSE(policy.worth_more(1, 0));
    EXPECT_FALSE(policy.worth_more(2, 1)) << "never used";
    EXPECT_FALSE(policy.worth_more(2, 3)) << "no better than its victim";
  }
}

TEST(CachePolicy, LfuKeepsWhatWasUsedMoreOftenThanTheThresholdFromSpeculation) {
  CachePolicy policy(PolicyKind::kLfu, 4, one_class(1, 3, 2));
  policy.begin_step(1);
  policy.use(0, 0, 9);
  policy.use(0, 1, 4);
  policy.use(0, 2, 5);
  EXPECT_TRUE(policy.worth_more(0, 1));
  EXPECT_FALSE(policy.worth_more(0, 2));
}

TEST(CachePolicy, HeatFadesByHalfInAHalfLifeAndSurvivesARestart) {
  CachePolicy policy(PolicyKind::kLru, 100, one_class(1, 2, 2));
  policy.begin_step(1);
  policy.use(0, 1, 8);
  EXPECT_FLOAT_EQ(policy.heat(0, 1), 8);
  policy.begin_step(kHalfLifeTokens);
  EXPECT_FLOAT_EQ(policy.heat(0, 1), 4);
  EXPECT_EQ(policy.heat(0, 0), 0);
  CachePolicy next(PolicyKind::kLru, 100, one_class(1, 2, 2));
  next.warm(0, 1, policy.heat(0, 1));
  EXPECT_FLOAT_EQ(next.heat(0, 1), 4);
}

// The rows of a chunk came one after the other: they may not outweigh the same tokens decoded one by one.
TEST(CachePolicy, AChunkCountsLikeItsTokensOneByOne) {
  CachePolicy chunk(PolicyKind::kAuto, 100, one_class(1, 1, 1)), single(PolicyKind::kAuto, 100, one_class(1, 1, 1));
  chunk.begin_step(1000);
  chunk.use(0, 0, 1000);
  for (int token = 0; token < 1000; ++token) single.begin_step(1), single.use(0, 0, 1);
  EXPECT_NEAR(chunk.heat(0, 0), single.heat(0, 0), 1e-3);
}

TEST(CachePolicy, WarmthDecidesUntilSomethingIsUsed) {
  for (const PolicyKind kind : {PolicyKind::kAuto, PolicyKind::kLru, PolicyKind::kLfu}) {
    CachePolicy policy(kind, 100, one_class(1, 3, 3));
    for (int e = 0; e < 3; ++e) policy.insert(0, e);
    policy.warm(0, 0, 3);
    policy.warm(0, 1, 1);
    policy.warm(0, 2, 2);
    EXPECT_EQ(policy.victim(0, kDecoding), 1);
    policy.begin_step(1);
    policy.use(0, 1, 2);
    EXPECT_EQ(policy.victim(0, kDecoding), 2);
  }
}

TEST(CachePolicy, HeatThatIsNoNumberIsNoHeat) {
  CachePolicy policy(PolicyKind::kAuto, 100, one_class(1, 1, 1));
  for (const float bad : {NAN, INFINITY, -1.0F, 0.0F}) policy.warm(0, 0, bad);
  EXPECT_EQ(policy.heat(0, 0), 0);
}

TEST(CachePolicy, TimeRunsForYears) {
  CachePolicy policy(PolicyKind::kAuto, 100, one_class(1, 2, 2));
  policy.begin_step(int64_t{1} << 40);
  policy.begin_step(1);
  policy.use(0, 0, 1);
  policy.begin_step(1);
  policy.use(0, 1, 1);
  policy.insert(0, 0), policy.insert(0, 1);
  EXPECT_EQ(policy.victim(0, kDecoding), 0) << "one token apart after 10^12 of them";
  EXPECT_NEAR(policy.heat(0, 0), 1, 0.01);
}

}  // namespace
}  // namespace colibri::store
