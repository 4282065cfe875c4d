// The router against plain code with std::stable_sort, every level against scalar bit by bit, any batch against single
// rows, and what hostile logits give.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "compute/cpu/isa.h"
#include "compute/cpu/test_data.h"

namespace colibri::compute {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Routes {
  std::vector<int32_t> ids;
  Block weights;
  bool operator==(const Routes& other) const { return ids == other.ids && weights == other.weights; }
};

Routes run(const KernelTable& kernels, Rows logits, const RouterParams& params) {
  Routes out{std::vector<int32_t>(static_cast<size_t>(logits.rows * params.top_k), -7),
             Block(logits.rows, params.top_k)};
  const RouteJob job{logits.data, logits.rows, params, out.ids.data(), out.weights.values.data()};
  kernels.route(&job);
  return out;
}

RouterParams softmax(int n_experts, int top_k, bool renormalise) {
  RouterParams p;
  p.n_experts = n_experts;
  p.top_k = top_k;
  p.renormalise = renormalise;
  return p;
}

// ---- the reference ----

bool ranks_above(double a, double b) { return !std::isnan(a) && (std::isnan(b) || a > b); }

std::vector<int32_t> sorted(const std::vector<double>& keys) {
  std::vector<int32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return ranks_above(keys[static_cast<size_t>(a)], keys[static_cast<size_t>(b)]);
  });
  return order;
}

double reference_term(RouterKind kind, double logit, double largest) {
  if (std::isnan(logit)) return 0;
  if (kind == RouterKind::kSoftmax) return logit == largest ? 1 : std::exp(logit - largest);
  return kind == RouterKind::kSigmoid ? 1 / (1 + std::exp(-logit)) : std::sqrt(std::log1p(std::exp(logit)));
}

/// Makes the keys of all groups but the best NaN.
void drop_groups(const RouterParams& p, std::vector<double>& keys) {
  const auto size = static_cast<size_t>(p.n_experts / p.n_groups);
  std::vector<double> scores;
  for (size_t first = 0; first < keys.size(); first += size) {
    std::vector<double> group(keys.begin() + static_cast<int64_t>(first),
                              keys.begin() + static_cast<int64_t>(first + size));
    for (double& key : group)
      if (std::isnan(key)) key = -kInfinity;
    std::sort(group.rbegin(), group.rend());
    scores.push_back(p.group_score == GroupScore::kTwoLargest ? group[0] + group[1] : group[0]);
  }
  const std::vector<int32_t> order = sorted(scores);
  for (size_t g = static_cast<size_t>(p.top_groups); g < order.size(); ++g)
    std::fill_n(keys.begin() + static_cast<int64_t>(static_cast<size_t>(order[g]) * size), size, kNan);
}

void expect_reference(const float* logits, const RouterParams& p, const int32_t* ids, const float* weights) {
  const auto n = static_cast<size_t>(p.n_experts);
  double largest = -kInfinity, total = 0, chosen = 0;
  for (size_t e = 0; e < n; ++e) largest = std::fmax(largest, logits[e]);
  std::vector<double> terms, keys;
  for (size_t e = 0; e < n; ++e) {
    terms.push_back(reference_term(p.kind, logits[e], largest));
    total += terms[e];
  }
  const bool by_logit = p.bias == nullptr && (p.n_groups == 1 || p.group_score == GroupScore::kLargest);
  for (size_t e = 0; e < n; ++e) {
    const double score = p.kind == RouterKind::kSoftmax ? terms[e] / total : terms[e];
    keys.push_back(by_logit || std::isnan(logits[e]) ? logits[e] : score + (p.bias != nullptr ? p.bias[e] : 0.0f));
  }
  if (p.top_groups < p.n_groups) drop_groups(p, keys);
  const std::vector<int32_t> order = sorted(keys);
  for (int j = 0; j < p.top_k; ++j) {
    const auto e = static_cast<size_t>(order[static_cast<size_t>(j)]);
    if (std::isnan(keys[e])) terms[e] = 0;
    chosen += terms[e];
  }
  const double whole = p.kind == RouterKind::kSoftmax ? total : 1;
  const double by = p.renormalise ? std::max(chosen + p.sum_offset, p.sum_floor * whole) : whole;
  for (int j = 0; j < p.top_k; ++j) {
    const auto e = static_cast<size_t>(order[static_cast<size_t>(j)]);
    ASSERT_EQ(ids[j], order[static_cast<size_t>(j)]) << "choice " << j;
    const double scale = p.scale * (p.expert_scale != nullptr ? p.expert_scale[e] : 1.0f);
    ASSERT_NEAR(weights[j], by > 0 ? scale * terms[e] / by : 0, 2e-6) << "choice " << j;
  }
}

// ---- random problems ----

struct Problem {
  RouterParams params;
  Block logits, bias, expert_scale;
};

/// Many ties: logits and biases are multiples of 1/4 and 1/8. Some rows have NaN and -infinity.
Problem random_problem(Random& random) {
  Problem q;
  RouterParams& p = q.params;
  p.kind = static_cast<RouterKind>(random.below(3));
  p.n_groups = random.below(3) == 0 ? 1 + static_cast<int>(random.below(8)) : 1;
  p.top_groups = 1 + static_cast<int>(random.below(p.n_groups));
  p.group_score = random.below(2) == 0 ? GroupScore::kLargest : GroupScore::kTwoLargest;
  p.n_experts = p.n_groups * static_cast<int>(2 + random.below(random.below(4) == 0 ? 140 : 20));
  if (p.n_groups == 1 && random.below(10) == 0) p.n_experts = 1 + static_cast<int>(random.below(3));
  const int most = p.n_experts / p.n_groups * p.top_groups;
  p.top_k = 1 + static_cast<int>(random.below(random.below(4) == 0 ? most : std::min(most, 10)));
  p.renormalise = random.below(2) == 0;
  p.sum_offset = random.below(2) == 0 ? 1e-20f : 0.0f;
  p.sum_floor = random.below(3) == 0 ? 0.6f : 0.0f;
  p.scale = random.below(2) == 0 ? 1.0f : 2.5f;
  q.logits = random_block(random, 1 + random.below(40), p.n_experts, random.below(2) == 0 ? 4.0f : 1.0f);
  for (float& v : q.logits.values) v = std::round(4 * v) / 4;
  if (random.below(3) == 0)
    for (float& v : q.logits.values)
      if (const int64_t chance = random.below(8); chance < 2) v = chance == 0 ? kNan : -kInfinity;
  q.bias = random_block(random, 1, p.n_experts);
  for (float& v : q.bias.values) v = std::round(8 * v) / 8;
  if (random.below(2) == 0) p.bias = q.bias.values.data();
  q.expert_scale = random_block(random, 1, p.n_experts);
  if (random.below(3) == 0) p.expert_scale = q.expert_scale.values.data();
  return q;
}

template <typename Body>
void for_each_level(const Body& body) {
  for (const Isa& isa : all_isas())
    if (isa.own_kernels && is_available(isa)) body(isa);
}

TEST(Router, EveryLevelChoosesLikeAStableSortForEveryKind) {
  Random random(11);
  for (int trial = 0; trial < 400; ++trial) {
    Problem q = random_problem(random);
    ASSERT_TRUE(check_router(q.params).ok());
    Routes expected = run(kScalarKernels, q.logits.rows(), q.params);
    for (int64_t r = 0; r < q.logits.rows().rows; ++r) {
      const int64_t at = r * q.params.top_k;
      expect_reference(q.logits.rows().row(r), q.params, expected.ids.data() + at, expected.weights.rows().row(r));
      if (HasFatalFailure()) FAIL() << "trial " << trial << " row " << r;
    }
    for_each_level([&](const Isa& isa) {
      ASSERT_EQ(run(*isa.kernels, q.logits.rows(), q.params), expected) << isa.name << " trial " << trial;
    });
  }
}

TEST(Router, RowsDoNotDependOnTheRowsBesideThem) {
  Random random(12);
  for_each_level([&](const Isa& isa) {
    for (int64_t rows = 1; rows <= 40; ++rows) {
      Problem q = random_problem(random);
      q.logits = random_block(random, rows, q.params.n_experts, 3.0f);
      const Routes together = run(*isa.kernels, q.logits.rows(), q.params);
      for (int64_t r = 0; r < rows; ++r) {
        const Routes alone = run(*isa.kernels, q.logits.rows().slice(r, 1), q.params);
        const auto k = static_cast<size_t>(q.params.top_k), at = static_cast<size_t>(r) * k;
        ASSERT_TRUE(std::equal(alone.ids.begin(), alone.ids.end(), together.ids.begin() + static_cast<int64_t>(at)));
        ASSERT_EQ(0, std::memcmp(alone.weights.values.data(), together.weights.values.data() + at, k * sizeof(float)))
            << isa.name << " row " << r << " of " << rows;
      }
    }
  });
}

TEST(Router, WeighsGivenIdsLikeThoseThatItChooses) {
  Random random(15);
  for (int trial = 0; trial < 200; ++trial) {
    Problem q = random_problem(random);
    for (float& v : q.logits.values)
      if (!std::isfinite(v)) v = -2.0f;
    Routes expected = run(kScalarKernels, q.logits.rows(), q.params);
    for_each_level([&](const Isa& isa) {
      Block weights(q.logits.rows().rows, q.params.top_k);
      const RouteJob job{q.logits.values.data(), q.logits.rows().rows, q.params, nullptr,
                         weights.values.data(),  expected.ids.data()};
      isa.kernels->route(&job);
      ASSERT_EQ(weights, expected.weights) << isa.name << " trial " << trial;
    });
  }
}

TEST(Router, WeighsAnyIdsInAnyOrder) {
  RouterParams p = softmax(4, 3, true);
  p.kind = RouterKind::kSqrtSoftplus;
  p.scale = 1.5f;
  Block logits(2, 4);
  logits.values = {0.5f, -1.0f, 2.0f, kNan, 3.0f, 0.25f, -kInfinity, 1.0f};
  const std::vector<int32_t> ids = {1, 3, 2, 0, 0, 2};
  Block weights(2, 3);
  test_backend("auto")->weigh(logits.rows(), p, ids.data(), weights.values.data());
  const auto score = [](double logit) { return std::sqrt(std::log1p(std::exp(logit))); };
  const double sum = score(-1) + score(2);
  const double expected[] = {1.5 * score(-1) / sum, 0, 1.5 * score(2) / sum, 0.75, 0.75, 0};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(weights.values[i], expected[i], 1e-6) << i;
}

// ---- the sparse mixer ----

RouterParams mixer(int n_experts, float jitter) {
  RouterParams p = softmax(n_experts, 2, false);
  p.kind = RouterKind::kSparseMixer;
  p.jitter = jitter;
  return p;
}

/// The weight of the best expert but `without`, among the logits near it.
double mixer_weight(const float* logits, const RouterParams& p, int32_t id, int32_t without) {
  double total = 0;
  const double own = static_cast<double>(logits[id]);
  for (int e = 0; e < p.n_experts; ++e) {
    const double logit = static_cast<double>(logits[e]);
    const bool near = (own - logit) / std::max(std::fabs(logit), own) <= 2 * static_cast<double>(p.jitter);
    if (e != without && near) total += std::exp(logit - own);
  }
  return 1 / total;
}

TEST(Router, SparseMixerWeighsEachChoiceAmongItsNeighbours) {
  Random random(16);
  for (int trial = 0; trial < 200; ++trial) {
    RouterParams p = mixer(2 + static_cast<int>(random.below(30)), random.below(2) == 0 ? 0.01f : 0.2f);
    p.scale = trial % 2 == 0 ? 1.0f : 0.5f;
    Block logits = random_block(random, 1 + random.below(40), p.n_experts, trial % 3 == 0 ? 0.1f : 3.0f);
    if (trial % 4 == 0)
      for (float& v : logits.values) v -= 4.0f;
    Routes expected = run(kScalarKernels, logits.rows(), p);
    for (int64_t r = 0; r < logits.rows().rows; ++r) {
      const float* row = logits.rows().row(r);
      const int32_t* ids = expected.ids.data() + 2 * r;
      const float* weights = expected.weights.rows().row(r);
      ASSERT_EQ(ids[0], std::max_element(row, row + p.n_experts) - row);
      for (int e = 0; e < p.n_experts; ++e) ASSERT_TRUE(e == ids[0] || row[e] <= row[ids[1]]);
      ASSERT_NEAR(weights[0], p.scale * mixer_weight(row, p, ids[0], -1), 1e-6);
      ASSERT_NEAR(weights[1], p.scale * mixer_weight(row, p, ids[1], ids[0]), 1e-6);
    }
    for_each_level([&](const Isa& isa) {
      ASSERT_EQ(run(*isa.kernels, logits.rows(), p), expected) << isa.name << " trial " << trial;
    });
  }
}

// Numbers that the published model code gives for these logits.
TEST(Router, SparseMixerIsThatOfPhi) {
  Block logits(4, 6);
  logits.values = {1.5f, -0.25f, 1.48f, 0.75f, 1.51f, 1.497f, -2.0f, -1.0f, -1.01f, -1.03f, -5.0f, -1.005f,
                   0.0f, 0.0f,   0.0f,  -0.0f, 0.0f,  0.0f,   3.0f,  3.05f, 2.99f,  3.1f,   0.0f,  3.04f};
  for_each_level([&](const Isa& isa) {
    const Routes got = run(*isa.kernels, logits.rows(), mixer(6, 0.01f));
    EXPECT_EQ(got.ids, (std::vector<int32_t>{4, 0, 1, 5, 0, 1, 3, 1}));
    const float expected[] = {0.253319770f, 0.335885704f, 0.335001379f, 0.501249969f,
                              0.166666672f, 0.2f,         0.345662653f, 0.257529944f};
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(got.weights.values[i], expected[i], 1e-6f) << isa.name << " " << i;
  });
}

TEST(Router, SparseMixerTakesInfinitiesAndNan) {
  const auto weights_of = [](std::vector<float> logits) {
    Block block(1, 3);
    block.values = std::move(logits);
    const Routes got = run(kScalarKernels, block.rows(), mixer(3, 0.01f));
    for_each_level([&](const Isa& isa) { EXPECT_EQ(run(*isa.kernels, block.rows(), mixer(3, 0.01f)), got); });
    return got.weights.values;
  };
  EXPECT_EQ(weights_of({kInfinity, 1, kInfinity}), (std::vector<float>{0.5f, 1}));
  EXPECT_EQ(weights_of({-kInfinity, 1, -kInfinity}), (std::vector<float>{1, 0.5f}));
  EXPECT_EQ(weights_of({kNan, 1, kNan}), (std::vector<float>{1, 0}));
}

TEST(Router, AnyNumberOfChoicesIsAPrefixOfAllChoices) {
  Random random(13);
  Block logits = random_block(random, 17, 150);
  for (float& v : logits.values) v = std::round(16 * v);
  logits.values[5] = logits.values[77] = kNan;
  for_each_level([&](const Isa& isa) {
    const Routes all = run(*isa.kernels, logits.rows(), softmax(150, 150, false));
    for (int k : {1, 2, 3, 31, 32, 33, 64, 65, 149}) {
      const Routes some = run(*isa.kernels, logits.rows(), softmax(150, k, false));
      for (size_t i = 0; i < some.ids.size(); ++i) {
        const size_t row = i / static_cast<size_t>(k), choice = i % static_cast<size_t>(k);
        ASSERT_EQ(some.ids[i], all.ids[row * 150 + choice]) << isa.name << " top " << k;
        ASSERT_EQ(some.weights.values[i], all.weights.values[row * 150 + choice]);
      }
    }
  });
}

// ---- logits that no model should give ----

/// One row, renormalised or not.
void expect_row(std::vector<float> logits, RouterKind kind, bool renormalise, const std::vector<int32_t>& ids,
                const std::vector<float>& weights) {
  RouterParams p = softmax(static_cast<int>(logits.size()), static_cast<int>(ids.size()), renormalise);
  p.kind = kind;
  for_each_level([&](const Isa& isa) {
    const Routes got = run(*isa.kernels, {logits.data(), 1, p.n_experts}, p);
    EXPECT_EQ(got.ids, ids) << isa.name;
    EXPECT_EQ(got.weights.values, weights) << isa.name;
  });
}

TEST(Router, EqualLogitsGoToTheLowestIdsInEqualParts) {
  for (bool renormalise : {false, true}) {
    const float weight = renormalise ? 0.5f : 0.125f;
    expect_row(std::vector<float>(8, -3.0f), RouterKind::kSoftmax, renormalise, {0, 1}, {weight, weight});
    expect_row(std::vector<float>(8, -kInfinity), RouterKind::kSoftmax, renormalise, {0, 1}, {weight, weight});
  }
  expect_row({-0.0f, 0.0f, -0.0f, 0.0f}, RouterKind::kSoftmax, true, {0, 1}, {0.5f, 0.5f});
  const float third = 1.0f / 3.0f;
  expect_row({-kInfinity, 0.0f, -0.0f, 0.0f}, RouterKind::kSoftmax, true, {1, 2, 3, 0}, {third, third, third, 0});
}

TEST(Router, InfiniteLogitsTakeEverythingOrNothing) {
  expect_row({1, kInfinity, 2, kInfinity}, RouterKind::kSoftmax, false, {1, 3, 2}, {0.5f, 0.5f, 0});
  expect_row({-kInfinity, 1, -kInfinity}, RouterKind::kSoftmax, true, {1, 0, 2}, {1, 0, 0});
  expect_row({-kInfinity, kInfinity, 0}, RouterKind::kSigmoid, false, {1, 2, 0}, {1, 0.5f, 0});
  expect_row({-kInfinity, kInfinity}, RouterKind::kSqrtSoftplus, true, {1, 0}, {1, 0});
  expect_row({-kInfinity, -kInfinity}, RouterKind::kSigmoid, true, {0, 1}, {0, 0});
}

TEST(Router, NanRanksBelowMinusInfinityAndWeighsNothing) {
  expect_row({kNan, -kInfinity, kNan, 5}, RouterKind::kSoftmax, true, {3, 1, 0, 2}, {1, 0, 0, 0});
  expect_row({kNan, -kInfinity, kNan, 5}, RouterKind::kSoftmax, false, {3, 1}, {1, 0});
  for (RouterKind kind : {RouterKind::kSoftmax, RouterKind::kSigmoid, RouterKind::kSqrtSoftplus})
    for (bool renormalise : {false, true}) expect_row({kNan, kNan, -kNan}, kind, renormalise, {0, 1}, {0, 0});
}

TEST(Router, ScoresOfEveryMagnitudeAreAccurate) {
  for (float logit = -80; logit <= 80; logit += 0.37f) {
    for (RouterKind kind : {RouterKind::kSigmoid, RouterKind::kSqrtSoftplus}) {
      RouterParams p = softmax(1, 1, false);
      p.kind = kind;
      const double expected = reference_term(kind, logit, 0);
      ASSERT_NEAR(run(kScalarKernels, {&logit, 1, 1}, p).weights.values[0], expected, 4e-7 * expected) << logit;
    }
  }
}

// ---- around the kernels ----

TEST(Router, AtMostSoManyThreadsAsTheSettingSaysShareTheRows) {
  Random random(14);
  Block logits = random_block(random, 500, 512);
  const RouterParams p = softmax(512, 10, true);
  const Routes expected = run(kScalarKernels, logits.rows(), p);
  for (int router_threads : {1, 2, 3}) {
    BackendOptions options;
    options.threads = 3;
    options.router_threads = router_threads;
    const auto backend = create_cpu_backend(options).value();
    std::atomic<int> tasks{0};  // the pool asks once before each
    backend->watch(
        [](const void* count) {
          ++*static_cast<std::atomic<int>*>(const_cast<void*>(count));
          return false;
        },
        &tasks);
    Routes got{std::vector<int32_t>(5000), Block(500, 10)};
    backend->route(logits.rows(), p, got.ids.data(), got.weights.values.data());
    EXPECT_EQ(got, expected);
    EXPECT_EQ(tasks, router_threads);
  }
}

TEST(Router, ParametersThatNoRouterCanHaveAreUsageErrors) {
  const auto refused = [](auto change) {
    RouterParams p = softmax(16, 4, true);
    EXPECT_TRUE(check_router(p).ok());
    change(p);
    const Status status = check_router(p);
    return !status.ok() && status.error().code == ErrorCode::kUsage;
  };
  EXPECT_TRUE(refused([](RouterParams& p) { p.n_experts = 0; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.n_experts = kMaxRouterExperts + 1; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.top_k = 0; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.top_k = 17; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.kind = static_cast<RouterKind>(4); }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.kind = RouterKind::kSparseMixer; })) << "two choices, no sum";
  EXPECT_TRUE(refused([](RouterParams& p) { p.group_score = static_cast<GroupScore>(2); }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.scale = kNan; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.sum_offset = -1; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.sum_floor = kInfinity; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.jitter = kNan; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.n_groups = 3; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.n_groups = -1; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.top_groups = 2; }));
  EXPECT_TRUE(refused([](RouterParams& p) { p.n_groups = 8; })) << "four choices from a group of two";
  EXPECT_TRUE(refused([](RouterParams& p) {
    p.n_groups = p.top_groups = 16;
    p.group_score = GroupScore::kTwoLargest;
  }));
}

}  // namespace
}  // namespace colibri::compute
