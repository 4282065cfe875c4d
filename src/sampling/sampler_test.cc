#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <numeric>

#include "sampling/constraint.h"
#include "sampling/logprobs.h"

namespace {
// Every allocation of this program is counted, so that a test can say that there were none.
int64_t g_allocations = 0;
}  // namespace

// Not inlined, so that the compiler does not pair malloc with delete and warn.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++g_allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++g_allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace colibri::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Reproducible logits that are spread like a model's.
std::vector<float> some_logits(size_t n, uint32_t seed = 1) {
  std::vector<float> logits(n);
  for (float& logit : logits) {
    seed = seed * 1664525 + 1013904223;
    logit = static_cast<float>(seed >> 8) / 16777216.0F * 16.0F - 8.0F;
  }
  return logits;
}

SamplerScratch& scratch() {
  static SamplerScratch memory(200'000);
  return memory;
}

std::vector<TokenId> draws(const SamplingParams& params, std::span<const float> logits, int count) {
  Sampler sampler(params, static_cast<int32_t>(logits.size()));
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) ids.push_back(sampler.sample(logits, scratch()).value());
  return ids;
}

std::map<TokenId, int> histogram(const SamplingParams& params, std::span<const float> logits, int count) {
  std::map<TokenId, int> counts;
  for (const TokenId id : draws(params, logits, count)) ++counts[id];
  return counts;
}

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp((logit - largest) / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

// The definition of top-k, top-p and min-p by a full sort.
std::vector<TokenId> kept_by_definition(std::span<const float> logits, const SamplingParams& params) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(params.top_k)));
  std::vector<double> weights;
  weights.reserve(ids.size());
  for (const TokenId id : ids) {
    weights.push_back(std::exp((double{logits[id]} - double{logits[ids[0]]}) / params.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  size_t n = 0;
  for (double sum = 0; n < ids.size() && sum < params.top_p * total; ++n) sum += weights[n];
  if (params.top_p >= 1) n = ids.size();
  n = std::max<size_t>(n, 1);
  while (n > 1 && weights[n - 1] < params.min_p) --n;
  ids.resize(n);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(Argmax, TiesGoToTheLowerId) { EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1); }

TEST(Argmax, NanIsNeverChosenUnlessNothingElseIsThere) {
  EXPECT_EQ(argmax(std::vector<float>{kNan, -5, kNan}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -kInfinity}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, kNan}), -1);
  EXPECT_EQ(argmax(std::vector<float>{}), -1);
}

TEST(Sampler, GreedyLooksAtNothingElse) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 50;
  params.presence_penalty = 50;
  params.top_k = 1;
  params.logit_bias = {{2, -100.0}};
  const std::vector<float> logits = {0, 1, 2, 1.5};
  EXPECT_EQ(draws(params, logits, 3), (std::vector<TokenId>{2, 2, 2}));
}

TEST(Sampler, GreedyFailsWhenNothingCanBeChosen) {
  SamplingParams params;
  params.temperature = 0;
  Sampler sampler(params, 2);
  EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInfinity}, scratch()).error().code, ErrorCode::kFailed);
}

TEST(Sampler, SameSeedSameTokensOtherSeedOtherTokens) {
  const std::vector<float> logits = some_logits(500);
  SamplingParams params;
  params.seed = 7;
  const std::vector<TokenId> first = draws(params, logits, 50);
  EXPECT_EQ(draws(params, logits, 50), first);
  params.seed = 8;
  EXPECT_NE(draws(params, logits, 50), first);
}

// Whoever changes the generator, the exponential or the order of a sum changes what users' seeds give. The ids were
// computed by a separate program from the definitions (xoshiro256** seeded by splitmix64, softmax, full sorts).
TEST(Sampler, DrawsOfASeedAreFixedForever) {
  SamplingParams params;
  params.seed = 42;
  const std::vector<float> logits = some_logits(64);
  const std::vector<TokenId> all = draws(params, logits, 8);
  params.top_k = 10;
  params.top_p = 0.9;
  params.temperature = 0.7;
  const std::vector<TokenId> filtered = draws(params, logits, 8);
  EXPECT_EQ(all, (std::vector<TokenId>{15, 33, 40, 52, 60, 41, 40, 41}));
  EXPECT_EQ(filtered, (std::vector<TokenId>{37, 33, 41, 52, 52, 41, 41, 40}));
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -1.0F, 0.5F, 1.5F, -3.0F, 2.5F};
  constexpr int kDraws = 200'000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = 3;
    auto counts = histogram(params, logits, kDraws);
    const std::vector<double> p = softmax(logits, temperature);
    double chi_square = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double expected = p[i] * kDraws;
      const double off = counts[static_cast<TokenId>(i)] - expected;
      chi_square += off * off / expected;
    }
    EXPECT_LT(chi_square, 24.3) << "temperature " << temperature;  // 7 degrees of freedom: 1 in 1000 would be above
  }
}

TEST(Sampler, FiltersKeepWhatTheirDefinitionsKeep) {
  for (const size_t vocab : {5, 40, 700}) {
    for (uint32_t seed = 1; seed <= 12; ++seed) {
      std::vector<float> logits = some_logits(vocab, seed);
      if (seed % 3 == 0) logits[vocab / 2] = logits[0];  // a tie
      SamplingParams params;
      params.top_k = seed % 2 == 0 ? static_cast<int32_t>(seed) : 0;
      params.top_p = seed % 4 < 2 ? 0.3 + 0.05 * seed : 1.0;
      params.min_p = seed % 5 == 0 ? 0.2 : 0.0;
      params.temperature = 3.0;
      const std::vector<TokenId> allowed = kept_by_definition(logits, params);
      const auto counts = histogram(params, logits, 2000);
      for (const auto& [id, count] : counts) {
        EXPECT_TRUE(std::binary_search(allowed.begin(), allowed.end(), id))
            << id << " of " << vocab << " seed " << seed;
      }
      if (allowed.size() > 12) continue;
      EXPECT_EQ(counts.size(), allowed.size()) << vocab << " seed " << seed;
    }
  }
}

TEST(Sampler, TopPKeepsOneTokenEvenAtZero) {
  SamplingParams params;
  params.top_p = 0.0;
  EXPECT_EQ(histogram(params, std::vector<float>{1, 2, 1.9F}, 100).size(), 1U);
}

TEST(Sampler, TiesAtABorderGoToTheLowerIds) {
  SamplingParams params;
  params.top_k = 2;
  const auto counts = histogram(params, std::vector<float>{1, 1, 1, 1}, 200);
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_TRUE(counts.contains(0) && counts.contains(1));
}

TEST(Sampler, MinPIsRelativeToTheMostProbable) {
  SamplingParams params;
  params.min_p = 0.5;
  const std::vector<float> logits = {0, std::log(0.51F), std::log(0.49F)};
  const auto counts = histogram(params, logits, 500);
  EXPECT_TRUE(counts.contains(1));
  EXPECT_FALSE(counts.contains(2));
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplingParams params;
  params.repetition_penalty = 4;
  params.top_k = 1;
  Sampler positive(params, 2);
  positive.observe_prompt(std::vector<TokenId>{0});
  EXPECT_EQ(positive.sample(std::vector<float>{4.0F, 1.5F}, scratch()).value(), 1);
  Sampler negative(params, 2);
  negative.observe_prompt(std::vector<TokenId>{0});
  EXPECT_EQ(negative.sample(std::vector<float>{-1.0F, -3.0F}, scratch()).value(), 1);
}

TEST(Sampler, PresencePenaltyCountsAnswersOnceAndNotThePrompt) {
  SamplingParams params;
  params.presence_penalty = 1;
  params.top_k = 1;
  Sampler sampler(params, 3);
  sampler.observe_prompt(std::vector<TokenId>{0});
  const std::vector<float> logits = {2.0F, 1.5F, 0.9F};
  EXPECT_EQ(sampler.sample(logits, scratch()).value(), 0);  // the prompt does not count
  EXPECT_EQ(sampler.sample(logits, scratch()).value(), 1);  // 1.0, 1.5, 0.9
  EXPECT_EQ(sampler.sample(logits, scratch()).value(), 0);  // 1.0, 0.5, 0.9
  EXPECT_EQ(sampler.sample(logits, scratch()).value(), 0);  // still 1.0: once, however often
}

TEST(Sampler, FrequencyPenaltyGrowsWithEachOccurrence) {
  SamplingParams params;
  params.frequency_penalty = 0.4;
  params.top_k = 1;
  Sampler sampler(params, 2);
  const std::vector<float> logits = {1.0F, 0.0F};
  std::vector<TokenId> ids;
  ids.reserve(4);
  for (int i = 0; i < 4; ++i) ids.push_back(sampler.sample(logits, scratch()).value());
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 0, 0, 1}));  // 1.0, 0.6, 0.2, then -0.2 against 0
}

TEST(Sampler, LogitBiasForcesAndForbids) {
  SamplingParams params;
  params.logit_bias = {{1, 100.0}, {99, 100.0}, {-1, 100.0}};
  EXPECT_EQ(histogram(params, std::vector<float>{5, 0, 3}, 200).size(), 1U);
  params.logit_bias = {{0, -100.0}};
  EXPECT_FALSE(histogram(params, std::vector<float>{5, 0, 3}, 200).contains(0));
}

TEST(Sampler, PaddedIdsAreNeverChosen) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    Sampler sampler(params, 2);
    EXPECT_LT(sampler.sample(std::vector<float>{0, 0, 50, 50}, scratch()).value(), 2);
  }
}

TEST(Sampler, InfiniteAndNanLogitsDoNoHarm) {
  SamplingParams params;
  const auto counts = histogram(params, std::vector<float>{kNan, -kInfinity, 1, 1}, 100);
  EXPECT_FALSE(counts.contains(0) || counts.contains(1));
  EXPECT_EQ(histogram(params, std::vector<float>{0, kInfinity, 3e38F}, 100).begin()->first, 1);
  Sampler sampler(params, 2);
  EXPECT_EQ(sampler.sample(std::vector<float>{kNan, -kInfinity}, scratch()).error().code, ErrorCode::kFailed);
}

TEST(Sampler, HugeBiasAndPenaltyStayNumbers) {
  SamplingParams params;
  params.logit_bias = {{0, 1e300}, {1, -1e300}};
  params.repetition_penalty = 100;
  EXPECT_EQ(draws(params, std::vector<float>{1, 1}, 5), (std::vector<TokenId>{0, 0, 0, 0, 0}));
}

TEST(Sampler, SamplingAllocatesNothing) {
  const std::vector<float> logits = some_logits(5000);
  SamplingParams params;
  params.top_k = 400;
  params.top_p = 0.95;
  params.min_p = 0.01;
  params.repetition_penalty = 1.1;
  params.logit_bias = {{3, 1.0}};
  Sampler sampler(params, 5000);
  scratch();
  const int64_t before = g_allocations;
  int64_t sum = 0;
  for (int i = 0; i < 20; ++i) sum += sampler.sample(logits, scratch()).value();
  EXPECT_EQ(g_allocations, before);
  EXPECT_GE(sum, 0);
}

// With a mask: the tokens that the same sampler chooses when all other logits are -infinity.
TEST(Sampler, MaskIsMinusInfinityBeforeEverythingElse) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    SamplingParams params;
    params.temperature = seed % 4 == 0 ? 0.0 : 0.5 + 0.1 * seed;
    params.top_k = seed % 3 == 0 ? 5 : 0;
    params.top_p = seed % 5 < 2 ? 0.7 : 1.0;
    params.min_p = seed % 7 == 0 ? 0.1 : 0.0;
    params.repetition_penalty = seed % 2 == 0 ? 1.3 : 1.0;
    params.seed = seed;
    if (seed % 6 == 0) params.logit_bias = {{3, 20.0}, {10, -5.0}};
    constexpr int32_t kVocab = 130;  // not a multiple of the mask's words
    Sampler masked(params, kVocab), reference(params, kVocab);
    for (uint32_t step = 0; step < 20; ++step) {
      std::vector<float> logits = some_logits(kVocab, seed * 100 + step);
      logits[step] = kNan;
      TokenMask mask(kVocab);
      for (TokenId id = 0; id < kVocab; ++id)
        if ((static_cast<uint32_t>(id) * 2654435761U + step * 97U) % 7 < 2) mask.set(id);
      std::vector<float> hidden = logits;
      for (TokenId id = 0; id < kVocab; ++id)
        if (!mask.test(id)) hidden[id] = -kInfinity;
      ASSERT_EQ(masked.sample(logits, scratch(), &mask).value(), reference.sample(hidden, scratch()).value());
    }
  }
}

TEST(Sampler, FailsWhenTheMaskLeavesNothing) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    Sampler sampler(params, 3);
    TokenMask mask(3);
    EXPECT_FALSE(sampler.sample(std::vector<float>{1, 2, 3}, scratch(), &mask).ok());
    mask.set(1);
    EXPECT_EQ(sampler.sample(std::vector<float>{1, 2, 3}, scratch(), &mask).value(), 1);
    EXPECT_FALSE(sampler.sample(std::vector<float>{1, -kInfinity, 3}, scratch(), &mask).ok());
    EXPECT_FALSE(sampler.sample(std::vector<float>{1}, scratch(), &mask).ok());
  }
}

TEST(Logprobs, AllocateNothing) {
  const std::vector<float> logits = some_logits(5000);
  TokenLogprob top[20];
  const int64_t before = g_allocations;
  const LogSoftmax softmax(logits);
  const size_t n = softmax.top(top);
  EXPECT_EQ(g_allocations, before);
  EXPECT_EQ(n, 20U);
}

std::vector<TokenTexts::Token> one_token_per_byte() {
  std::vector<TokenTexts::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
  return tokens;
}

// A second round through the same kind of answer finds everything that it needs.
TEST(Constraint, AllocatesNothingOnceWarm) {
  const TokenTexts texts = TokenTexts::build(one_token_per_byte(), {});
  ConstraintState state(*Constraint::parse(R"({"repeat": {"json_object": true}})", texts), texts);
  const std::string round = R"({"a": [1, {"b": "text"}, null], "c": {"d": 1.5e3}})";
  int64_t counted = 0;
  for (int i = 0; i < 20; ++i) {
    const int64_t before = g_allocations;
    for (const char c : round) {
      const bool allowed = state.allowed().test(c);
      if (!allowed || !state.accept(c)) FAIL() << c;
    }
    counted = g_allocations - before;
  }
  EXPECT_EQ(counted, 0);
}

TEST(Validate, NamesTheParameterAndItsRange) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const Status status = validate(params);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(message([](SamplingParams&) {}), "");
  EXPECT_EQ(message([](SamplingParams& p) { p.top_p = 1.5; }), "top_p is 1.5; it must be from 0 to 1");
  EXPECT_EQ(message([](SamplingParams& p) { p.repetition_penalty = 0; }),
            "repetition_penalty is 0; it must be above 0, at most 100");
  EXPECT_NE(message([](SamplingParams& p) { p.temperature = kNan; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](SamplingParams& p) { p.min_p = kInfinity; }).find("min_p"), std::string::npos);
  EXPECT_NE(message([](SamplingParams& p) { p.top_k = -1; }).find("top_k"), std::string::npos);
  EXPECT_NE(message([](SamplingParams& p) { p.logit_bias = {{5, kNan}}; }).find("token 5"), std::string::npos);
}

}  // namespace
}  // namespace colibri::sampling
