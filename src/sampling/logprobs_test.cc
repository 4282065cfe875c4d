#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace colibri::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> some_logits(size_t n, uint32_t seed) {
  std::vector<float> logits(n);
  for (float& logit : logits) {
    seed = seed * 1664525 + 1013904223;
    logit = static_cast<float>(seed >> 8) / 16777216.0F * 40.0F - 20.0F;
  }
  return logits;
}

std::vector<TokenLogprob> top(const LogSoftmax& softmax, size_t k) {
  std::vector<TokenLogprob> entries(k);
  entries.resize(softmax.top(entries));
  return entries;
}

TEST(Logprobs, AreTheLogarithmOfTheSoftmax) {
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const std::vector<float> logits = some_logits(3000, seed);
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    const LogSoftmax softmax(logits);
    for (TokenId id = 0; id < 3000; id += 7) {
      const auto expected = static_cast<double>(logits[static_cast<size_t>(id)] - std::log(sum));
      ASSERT_NEAR(softmax[id], expected, 4e-6 * (1 + std::abs(expected)) / 2) << id;
    }
  }
}

TEST(Logprobs, TopIsTheFrontOfAFullSort) {
  std::vector<float> logits = some_logits(500, 3);
  for (size_t i = 0; i < 40; ++i) logits[i * 11] = logits[7];  // ties
  const LogSoftmax softmax(logits);
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (const size_t k : {0, 1, 2, 5, 32, 499, 500, 600}) {
    const auto entries = top(softmax, k);
    ASSERT_EQ(entries.size(), std::min(k, logits.size()));
    for (size_t i = 0; i < entries.size(); ++i) {
      EXPECT_EQ(entries[i].token, order[i]) << i << " of " << k;
      EXPECT_EQ(entries[i].logprob, softmax[entries[i].token]);  // the same float wherever it appears
    }
  }
}

TEST(Logprobs, ProbabilitiesSumToOne) {
  const std::vector<float> logits = some_logits(2000, 9);
  const LogSoftmax softmax(logits);
  double sum = 0;
  for (TokenId id = 0; id < 2000; ++id) sum += std::exp(static_cast<double>(softmax[id]));
  EXPECT_NEAR(sum, 1.0, 1e-5);
}

// Whoever changes the exponential, the logarithm or the order of the sum changes what clients compare. The values were
// computed with 40 decimal digits.
TEST(Logprobs, BitsAreFixedForever) {
  const std::vector<float> logits = {1.0F, 2.0F, 3.0F, -4.5F};
  const LogSoftmax softmax(logits);
  EXPECT_EQ(softmax[0], -2.40797377F);
  EXPECT_EQ(softmax[2], -0.407973826F);
  EXPECT_EQ(softmax[3], -7.90797377F);
}

TEST(Logprobs, WhatIsNoNumberHasNoProbability) {
  const std::vector<float> logits = {kNan, 1.0F, -kInfinity, 1.0F};
  const LogSoftmax softmax(logits);
  EXPECT_EQ(softmax[0], -kInfinity);
  EXPECT_EQ(softmax[2], -kInfinity);
  EXPECT_EQ(softmax[-1], -kInfinity);
  EXPECT_EQ(softmax[4], -kInfinity);
  EXPECT_FLOAT_EQ(softmax[1], -std::log(2.0F));
  EXPECT_EQ(top(softmax, 4).size(), 2U);
  const std::vector<float> nothing = {kNan, -kInfinity};
  EXPECT_EQ(top(LogSoftmax(nothing), 2).size(), 0U);
  const std::vector<float> certain = {kInfinity, 0.0F};
  EXPECT_EQ(LogSoftmax(certain)[0], 0.0F);
}

}  // namespace
}  // namespace colibri::sampling
