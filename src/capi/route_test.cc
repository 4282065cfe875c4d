// The router through the C API: what it gives, and that hostile arguments are refused before anything is written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "colibri/colibri.h"
#include "colibri/colibri.hpp"

namespace {

constexpr float kLogits[] = {0, 2, 1, 2, /**/ -1, -1, 3, 0};
constexpr int32_t kAll[] = {COLIBRI_ROUTER_SOFTMAX_RENORMALISED,       COLIBRI_ROUTER_SOFTMAX,
                            COLIBRI_ROUTER_SIGMOID_RENORMALISED,       COLIBRI_ROUTER_SIGMOID,
                            COLIBRI_ROUTER_SQRT_SOFTPLUS_RENORMALISED, COLIBRI_ROUTER_SQRT_SOFTPLUS};

TEST(Route, EveryKindChoosesTheLargestLogitsAndWeighsThemItsWay) {
  const double e = std::exp(1.0), all = 1 + 2 * e * e + e, two = 1 / (1 + std::exp(-2.0));
  const double root = std::sqrt(std::log1p(e * e));
  const double expected[] = {0.5, e * e / all, 0.5, two, 0.5, root};
  for (int32_t kind : kAll) {
    int32_t ids[4] = {};
    float weights[4] = {};
    ASSERT_EQ(colibri_route(kLogits, 2, 4, kind, 2, ids, weights), COLIBRI_OK);
    EXPECT_EQ(std::vector<int32_t>(ids, ids + 4), (std::vector<int32_t>{1, 3, 2, 3})) << "kind " << kind;
    EXPECT_NEAR(weights[0], expected[kind], 1e-6) << "kind " << kind;
    EXPECT_EQ(weights[1], weights[0]) << "kind " << kind;
    EXPECT_GT(weights[2], weights[3]) << "kind " << kind;
  }
}

TEST(Route, BiasAndGroupsChangeTheChoiceButNotTheScores) {
  const float bias[] = {0, 0, 0, 0, 0, 1, 1, 0};
  auto rule = colibri::api::router();
  rule.kind = COLIBRI_ROUTER_SIGMOID;
  rule.experts = 8;
  rule.k = 2;
  rule.bias = bias;
  rule.scale = 2;
  std::vector<int32_t> ids(2);
  std::vector<float> weights(2);
  ASSERT_TRUE(colibri::api::route(rule, kLogits, ids, weights).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{6, 5}));
  EXPECT_NEAR(weights[1], 2 / (1 + std::exp(1.0)), 1e-6);
  rule.bias = nullptr;
  rule.groups = 2;
  rule.top_groups = 1;  // the first has no single largest, but the two largest together
  ASSERT_TRUE(colibri::api::route(rule, kLogits, ids, weights).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{6, 7}));
  rule.two_largest = 1;
  ASSERT_TRUE(colibri::api::route(rule, kLogits, ids, weights).ok());
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3}));
}

TEST(Route, HostileArgumentsAreRefusedAndNothingIsWritten) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  int32_t ids[4] = {-5, -5, -5, -5};
  float weights[4] = {-5, -5, -5, -5};
  const auto refused = [&](int64_t rows, int32_t experts, int32_t kind, int32_t k) {
    return colibri_route(kLogits, rows, experts, kind, k, ids, weights) == COLIBRI_USAGE;
  };
  for (int32_t experts : {INT32_MIN, -1, 0, COLIBRI_ROUTER_MAX_EXPERTS + 1, INT32_MAX})
    EXPECT_TRUE(refused(1, experts, 0, 1)) << experts;
  for (int32_t k : {INT32_MIN, -1, 0, 5, INT32_MAX}) EXPECT_TRUE(refused(1, 4, 0, k)) << k;
  for (int32_t kind : {INT32_MIN, -1, 6, INT32_MAX}) EXPECT_TRUE(refused(1, 4, kind, 2)) << kind;
  for (int64_t rows : {std::numeric_limits<int64_t>::min(), int64_t{-1}, kHuge, kHuge / 16 + 1})
    EXPECT_TRUE(refused(rows, 4, 0, 2)) << rows;
  EXPECT_EQ(colibri_route(nullptr, 1, 4, 0, 2, ids, weights), COLIBRI_USAGE);
  EXPECT_EQ(colibri_route(kLogits, 1, 4, 0, 2, nullptr, weights), COLIBRI_USAGE);
  EXPECT_EQ(colibri_route(kLogits, 1, 4, 0, 2, ids, nullptr), COLIBRI_USAGE);
  EXPECT_EQ(colibri_route(nullptr, 0, 4, 0, 2, nullptr, nullptr), COLIBRI_OK) << "no rows need no memory";
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ids[i], -5);
    EXPECT_EQ(weights[i], -5);
  }
}

TEST(Route, TheLongFormSaysWhatIsWrong) {
  colibri_error error{};
  int32_t ids[2];
  float weights[2];
  colibri_router rule;
  colibri_router_init(nullptr);
  colibri_router_init(&rule);
  rule.experts = 8;
  rule.k = 2;
  EXPECT_EQ(colibri_route_with(&rule, kLogits, 1, ids, weights, &error), COLIBRI_OK);
  EXPECT_EQ(colibri_route_with(nullptr, kLogits, 1, ids, weights, &error), COLIBRI_USAGE);
  rule.struct_size = 0;
  EXPECT_EQ(colibri_route_with(&rule, kLogits, 1, ids, weights, &error), COLIBRI_USAGE);
  EXPECT_NE(std::string(error.message).find("struct_size"), std::string::npos);
  rule.struct_size = sizeof rule;
  rule.groups = 3;
  EXPECT_EQ(colibri_route_with(&rule, kLogits, 1, ids, weights, &error), COLIBRI_USAGE);
  EXPECT_NE(std::string(error.message).find("3 equal groups"), std::string::npos) << error.message;
  rule.groups = 1;
  rule.k = 9;
  EXPECT_EQ(colibri_route_with(&rule, kLogits, 1, ids, weights, nullptr), COLIBRI_USAGE);
  rule.k = 1;
  std::vector<int32_t> two_ids(2);
  std::vector<float> two_weights(2);
  EXPECT_FALSE(colibri::api::route(rule, kLogits, two_ids, two_weights).ok()) << "one row, one choice, two places";
}

TEST(Route, ManyThreadsAtOnceGetTheSame) {
  std::vector<std::vector<float>> weights(8, std::vector<float>(4));
  std::vector<std::thread> threads;
  for (auto& mine : weights)
    threads.emplace_back([&mine] {
      int32_t ids[4];
      for (int i = 0; i < 100; ++i) colibri_route(kLogits, 2, 4, COLIBRI_ROUTER_SOFTMAX, 2, ids, mine.data());
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : weights) EXPECT_EQ(mine, weights[0]);
  EXPECT_GT(weights[0][0], 0);
}

}  // namespace
