#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

namespace colibri::text {
namespace {

Vocabulary vocabulary_of(const std::vector<std::string>& spellings) {
  Vocabulary vocabulary(spellings.size(), spellings.size(), 0);
  for (size_t i = 0; i < spellings.size(); ++i) vocabulary.insert(static_cast<TokenId>(i), spellings[i]);
  return vocabulary;
}

Bpe make(const std::vector<std::string>& spellings, const std::vector<MergeRule>& rules, const BpeOptions& options,
         const std::vector<std::string>& special = {}) {
  auto bpe = Bpe::create(vocabulary_of(spellings), rules, options, special);
  EXPECT_TRUE(bpe.ok()) << bpe.error().message;
  return std::move(bpe).value();
}

TokenIds encode(const Bpe& bpe, std::string_view piece) {
  BpeScratch scratch;
  TokenIds ids;
  bpe.encode(piece, scratch, ids);
  return ids;
}

/// The definition: the rule of lowest rank that applies, at its leftmost place, until none applies.
TokenIds by_definition(const Vocabulary& vocabulary, const std::vector<MergeRule>& rules, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (bool merged = true; merged;) {
    merged = false;
    for (const MergeRule& rule : rules) {
      for (size_t i = 0; i + 1 < parts.size() && !merged; ++i) {
        if (parts[i] != rule.left || parts[i + 1] != rule.right) continue;
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
  }
  TokenIds ids;
  for (const std::string& part : parts) ids.push_back(vocabulary.find(part));
  return ids;
}

TEST(Bpe, ShortAndLongPiecesFollowTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> spellings = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> pairs;
    for (int i = 0; i < 30; ++i) {
      const std::string left = spellings[random() % spellings.size()], right = spellings[random() % spellings.size()];
      if (std::find(pairs.begin(), pairs.end(), std::pair(left, right)) != pairs.end()) continue;
      pairs.emplace_back(left, right);
      if (std::find(spellings.begin(), spellings.end(), left + right) == spellings.end())
        spellings.push_back(left + right);
    }
    std::shuffle(pairs.begin(), pairs.end(), random);
    std::vector<MergeRule> rules;
    for (const auto& [left, right] : pairs) rules.push_back({left, right});
    const Bpe bpe = make(spellings, rules, {});
    for (const size_t length : {1, 5, 20, 48, 49, 120}) {
      std::string piece;
      while (piece.size() < length) piece += static_cast<char>('a' + random() % 3);
      ASSERT_EQ(encode(bpe, piece), by_definition(bpe.vocabulary(), rules, piece)) << piece;
      ASSERT_EQ(encode(bpe, piece), by_definition(bpe.vocabulary(), rules, piece)) << "the second time: " << piece;
    }
  }
}

TEST(Bpe, UnknownCharactersFallBackVanishOrFuse) {
  BpeOptions options;
  EXPECT_EQ(encode(make({"a", "<unk>"}, {}, options), "aza"), TokenIds({0, 0}));
  options.unknown = 1;
  EXPECT_EQ(encode(make({"a", "<unk>"}, {}, options), "azza"), TokenIds({0, 1, 1, 0}));
  options.fuse_unknown = true;
  EXPECT_EQ(encode(make({"a", "<unk>"}, {}, options), "azza"), TokenIds({0, 1, 0}));
  options.byte_fallback = true;
  const Bpe fallback = make({"a", "<unk>", "<0xC3>", "<0xA9>"}, {}, options);
  EXPECT_EQ(encode(fallback, "a\xC3\xA9"), TokenIds({0, 2, 3}));
  EXPECT_EQ(encode(fallback, "\xC3\xAA"), TokenIds({1}));  // only one of its two bytes has a token
}

TEST(Bpe, CutsAtBlankMarksChangeNoToken) {
  // "x_y" is a token, so no cut behind x; the others may be cut.
  const std::string m = "\xE2\x96\x81";
  const std::string xm = "x" + m, xmy = "x" + m + "y", my = m + "y", mm = m + m, mmy = mm + "y";
  const std::vector<std::string> spellings = {"x", "y", "z", m, xm, xmy, my, mm, mmy};
  const std::vector<MergeRule> rules = {{m, m}, {mm, "y"}, {m, "y"}, {"x", m}, {xm, "y"}};
  const Bpe bpe = make(spellings, rules, {});
  EXPECT_EQ(encode(bpe, "z" + m + "y" + m + "y"), TokenIds({2, 6, 6}));
  EXPECT_EQ(encode(bpe, "x" + m + "z"), TokenIds({4, 2}));
  EXPECT_EQ(encode(bpe, "z" + mm + "y" + m), TokenIds({2, 8, 3}));
}

TEST(Bpe, SpecialTokensAreNeitherMergedNorLookedUp) {
  BpeOptions options;
  options.ignore_merges = true;
  const Bpe bpe = make({"a", "b", "ab", "abab"}, {{"a", "b"}, {"ab", "ab"}}, options, {"abab"});
  EXPECT_EQ(encode(bpe, "abab"), TokenIds({2, 2}));
}

TEST(Bpe, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
  BpeOptions options;
  const std::vector<std::string> spellings = {"a", "b", "ab"};
  EXPECT_EQ(encode(make(spellings, {}, options), "ab"), TokenIds({0, 1}));
  options.ignore_merges = true;
  EXPECT_EQ(encode(make(spellings, {}, options), "ab"), TokenIds({2}));
}

TEST(Bpe, ARuleWithoutItsTokensIsAnError) {
  const auto bpe = Bpe::create(vocabulary_of({"a", "b"}), {{"a", "b"}}, {}, {});
  ASSERT_FALSE(bpe.ok());
  EXPECT_NE(bpe.error().message.find("merge 0 (\"a\" + \"b\")"), std::string::npos);
}

}  // namespace
}  // namespace colibri::text
