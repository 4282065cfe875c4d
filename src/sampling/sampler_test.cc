#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace colibri::sampling {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<TokenId> draws(const SamplingParams& params, const std::vector<float>& logits, int n) {
  Sampler sampler(params, static_cast<int32_t>(logits.size()));
  std::vector<TokenId> ids;
  for (int i = 0; i < n; ++i) ids.push_back(*sampler.sample(logits));
  return ids;
}

std::map<TokenId, int> histogram(const SamplingParams& params, const std::vector<float>& logits, int n) {
  std::map<TokenId, int> counts;
  for (const TokenId id : draws(params, logits, n)) ++counts[id];
  return counts;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerIdOnATieAndLooksAtNothingElse) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 5;
  params.logit_bias = {{0, 100}};
  EXPECT_EQ(draws(params, {1, 3, 3, 2}, 3), (std::vector<TokenId>{1, 1, 1}));
}

TEST(Sampler, TheSameSeedGivesTheSameDrawsAndAnotherSeedOthers) {
  const std::vector<float> logits = {0.1f, 0.5f, 0.3f, 0.9f, 0.2f};
  SamplingParams a, b;
  b.seed = 1;
  EXPECT_EQ(draws(a, logits, 50), draws(a, logits, 50));
  EXPECT_NE(draws(a, logits, 50), draws(b, logits, 50));
}

// Pinned: a change of generator, order or exp would change the text that users get for a seed.
TEST(Sampler, TheDrawsOfASeedNeverChange) {
  SamplingParams params;
  params.seed = 42;
  EXPECT_EQ(draws(params, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 8), (std::vector<TokenId>{0, 3, 6, 9, 9, 7, 7, 8}));
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f};
  const int n = 40000;
  auto counts = histogram({}, logits, n);
  double total = 0, chi_square = 0;
  for (const float l : logits) total += std::exp(l);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = n * std::exp(logits[i]) / total;
    chi_square += std::pow(counts[static_cast<TokenId>(i)] - expected, 2) / expected;
  }
  EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom, p = 0.001; the seed is fixed
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  SamplingParams cold, hot;
  cold.temperature = 0.1;
  hot.temperature = 50;
  EXPECT_GT(histogram(cold, {0, 1}, 1000)[1], 995);
  EXPECT_LT(histogram(hot, {0, 1}, 1000)[1], 560);
}

TEST(Sampler, TopKKeepsTheBestAndTheLowerIdsOfATie) {
  SamplingParams params;
  params.top_k = 2;
  const auto counts = histogram(params, {1, 2, 1, 1, 0}, 500);
  ASSERT_EQ(counts.size(), 2u);
  EXPECT_TRUE(counts.contains(0));
  EXPECT_TRUE(counts.contains(1));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesItAndAtLeastOne) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  SamplingParams params;
  params.top_p = 0.7;
  EXPECT_EQ(histogram(params, logits, 2000).size(), 2u);
  params.top_p = 0.81;
  EXPECT_EQ(histogram(params, logits, 2000).size(), 3u);
  params.top_p = 0;
  EXPECT_EQ(histogram(params, logits, 200).size(), 1u);
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f), std::log(0.05f)};
  SamplingParams params;
  params.min_p = 0.29;
  EXPECT_EQ(histogram(params, logits, 4000).size(), 3u);
}

TEST(Sampler, RepetitionPenaltyCountsThePromptPresenceAndFrequencyOnlyTheAnswer) {
  SamplingParams params;
  params.temperature = 0.01;
  params.repetition_penalty = 2;
  Sampler repetition(params, 3);
  repetition.observe_prompt(std::vector<TokenId>{0});
  EXPECT_EQ(*repetition.sample(std::vector<float>{3, 2, -1}), 1);  // 3 / 2 < 2
  params = {};
  params.temperature = 0.01;
  params.frequency_penalty = 1;
  Sampler frequency(params, 2);
  frequency.observe_prompt(std::vector<TokenId>{0});
  const std::vector<float> logits = {2.5f, 1};
  EXPECT_EQ(*frequency.sample(logits), 0);
  EXPECT_EQ(*frequency.sample(logits), 0);
  EXPECT_EQ(*frequency.sample(logits), 1);
}

TEST(Sampler, LogitBiasBansAndForces) {
  SamplingParams params;
  params.logit_bias = {{0, -100}, {2, 100}};
  EXPECT_EQ(histogram(params, {5, 5, 0}, 300), (std::map<TokenId, int>{{2, 300}}));
}

TEST(Sampler, ValuesThatAreNotFiniteAreNeverChosen) {
  EXPECT_EQ(histogram({}, {kNan, 1, kInf, -kInf}, 100), (std::map<TokenId, int>{{1, 100}}));
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    Sampler sampler(params, 3);
    const auto result = sampler.sample(std::vector<float>{kNan, -kInf, kNan});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kFailed);
  }
}

TEST(Sampler, PaddedIdsAreNeverSampled) {
  SamplingParams greedy;
  greedy.temperature = 0;
  Sampler sampler(greedy, 2);
  EXPECT_EQ(*sampler.sample(std::vector<float>{1, 2, 9}), 1);
}

TEST(Sampler, ParametersOutOfRangeAreRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](auto set, const char* name) {
    SamplingParams params;
    set(params);
    const Status status = validate(params);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_NE(status.error().message.find(name), std::string::npos);
  };
  refused([&](SamplingParams& p) { p.temperature = nan; }, "temperature");
  refused([&](SamplingParams& p) { p.temperature = -1; }, "temperature");
  refused([&](SamplingParams& p) { p.top_k = -1; }, "top_k");
  refused([&](SamplingParams& p) { p.top_p = 1.5; }, "top_p");
  refused([&](SamplingParams& p) { p.min_p = nan; }, "min_p");
  refused([&](SamplingParams& p) { p.repetition_penalty = 0; }, "repetition_penalty");
  refused([&](SamplingParams& p) { p.presence_penalty = 3; }, "presence_penalty");
  refused([&](SamplingParams& p) { p.frequency_penalty = -3; }, "frequency_penalty");
  refused([&](SamplingParams& p) { p.logit_bias = {{1, nan}}; }, "logit_bias");
  EXPECT_TRUE(validate({}).ok());
}

}  // namespace
}  // namespace colibri::sampling
