#include "engine/affinity.h"

#include <gtest/gtest.h>

namespace colibri::engine {
namespace {

constexpr size_t kExperts = 64;

// A prompt of words of one domain: ids 1000 d .. 1000 d + 50, and some that all domains have.
TokenIds prompt_of(int domain, int seed) {
  TokenIds ids;
  for (int i = 0; i < 40; ++i)
    ids.push_back(i % 2 == 0 ? (seed * 7 + i * 3) % 20 : 1000 * domain + (seed * 13 + i) % 50);
  return ids;
}

// A domain uses sixteen experts of its own.
std::vector<uint32_t> experts_of(int domain) {
  std::vector<uint32_t> counts(kExperts);
  for (size_t e = 0; e < 16; ++e) counts[static_cast<size_t>(domain) * 16 + e] = 10;
  return counts;
}

Affinity learned() {
  Affinity affinity(kExperts);
  for (int seed = 0; seed < 5; ++seed)
    for (int d = 0; d < 4; ++d) affinity.learn(affinity.profile(prompt_of(d, seed)), experts_of(d));
  return affinity;
}

const auto nobody = [](const auto&) {};

TEST(Affinity, ANewRequestIsExpectedToWantTheExpertsOfRequestsLikeIt) {
  Affinity affinity = learned();
  affinity.look([](size_t e) { return e / 16 == 2; }, nobody);
  const float like = affinity.score(affinity.profile(prompt_of(2, 99)));
  for (const int other : {0, 1, 3}) {
    const float unlike = affinity.score(affinity.profile(prompt_of(other, 98)));
    EXPECT_GT(like, 2 * unlike) << other;
  }
  EXPECT_GT(like, 0.5f);
}

TEST(Affinity, RequestsThatWantWhatTheRunningOnesWantGoTogether) {
  Affinity affinity = learned();
  const auto nothing = [](size_t) { return false; };
  affinity.look(nothing, [&](const auto& visit) {
    for (const int domain : {1, 1, 1, 3}) visit(affinity.profile(prompt_of(domain, 97)));
  });
  const auto score = [&](int domain) { return affinity.score(affinity.profile(prompt_of(domain, 98))); };
  EXPECT_GT(score(1), score(3));
  EXPECT_GT(score(3), 1.5f * score(0));
  affinity.look(nothing, nobody);
  EXPECT_EQ(score(1), 0);
}

TEST(Affinity, NothingIsKnownAtFirst) {
  Affinity affinity(kExperts);
  affinity.look([](size_t) { return true; }, nobody);
  EXPECT_EQ(affinity.score(affinity.profile(prompt_of(1, 1))), 0);
}

TEST(Affinity, MoreDomainsThanPlacesTakeThePlaceOfThoseUsedLeast) {
  Affinity affinity(kExperts);
  for (int seed = 0; seed < 3; ++seed)
    for (int d = 0; d < 40; ++d) affinity.learn(affinity.profile(prompt_of(d, seed)), experts_of(d % 4));
  affinity.look([](size_t e) { return e / 16 == 3; }, nobody);
  EXPECT_GT(affinity.score(affinity.profile(prompt_of(39, 50))), affinity.score(affinity.profile(prompt_of(38, 50))));
}

}  // namespace
}  // namespace colibri::engine
