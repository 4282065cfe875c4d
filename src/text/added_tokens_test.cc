#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace colibri::text {
namespace {

AddedToken token(const std::string& content, TokenId id) {
  AddedToken out;
  out.content = content;
  out.id = id;
  return out;
}

AddedTokens set_of(std::vector<AddedToken> tokens) {
  AddedTokens out;
  for (AddedToken& one : tokens) EXPECT_TRUE(out.add(std::move(one)).ok());
  out.finish([](std::string content) { return content; });
  return out;
}

/// "text[id]text": the sections, tokens in brackets with what they took.
std::string sections(const AddedTokens& tokens, std::string_view text, bool parse_special = true,
                     bool normalized = false) {
  std::vector<TextSection> found;
  tokens.split(text, normalized, parse_special, found);
  std::string out;
  for (const auto& [begin, end, id] : found) {
    const std::string part(text.substr(begin, end - begin));
    if (id < 0) {
      out.append(part);
    } else {
      out.append("[").append(std::to_string(id)).append(":").append(part).append("]");
    }
  }
  return out;
}

TEST(AddedTokens, TheLeftmostCountsAndOfThoseTheLongest) {
  const AddedTokens tokens = set_of({token("ab", 1), token("abcd", 2), token("bcdef", 3), token("b", 4)});
  EXPECT_EQ(sections(tokens, "xabcdef"), "x[2:abcd]ef");
  EXPECT_EQ(sections(tokens, "xabcx"), "x[1:ab]cx");
  EXPECT_EQ(sections(tokens, "bcdef"), "[3:bcdef]");
  EXPECT_EQ(sections(tokens, "bcde"), "[4:b]cde");
  EXPECT_EQ(sections(tokens, ""), "");
  EXPECT_EQ(sections(tokens, "xyz"), "xyz");
}

TEST(AddedTokens, BlanksAreTakenOnTheSidesThatTheFlagsName) {
  AddedToken left = token("<l>", 1), right = token("<r>", 2);
  left.lstrip = right.rstrip = true;
  const AddedTokens tokens = set_of({left, right});
  EXPECT_EQ(sections(tokens, "a  <l>  b"), "a[1:  <l>]  b");
  EXPECT_EQ(sections(tokens, "a  <r> \xE3\x80\x80 b"), "a  [2:<r> \xE3\x80\x80 ]b");
  EXPECT_EQ(sections(tokens, "<r>  <l>"), "[2:<r>  ][1:<l>]");
}

TEST(AddedTokens, ASingleWordHasNoWordCharacterBesideIt) {
  AddedToken word = token("cat", 1);
  word.single_word = true;
  const AddedTokens tokens = set_of({word});
  EXPECT_EQ(sections(tokens,
                     "cat concat cats cat. _cat \xC3\xA9"
                     "cat"),
            "[1:cat] concat cats [1:cat]. _cat \xC3\xA9"
            "cat");
}

TEST(AddedTokens, SpecialTokensInUntrustedTextStayText) {
  AddedToken special = token("<|im_end|>", 1);
  special.special = true;
  const AddedTokens tokens = set_of({special, token("<think>", 2)});
  EXPECT_EQ(sections(tokens, "a<|im_end|>b<think>", false), "a<|im_end|>b[2:<think>]");
}

TEST(AddedTokens, NormalisedTokensAreSearchedForInNormalisedText) {
  AddedToken normalized = token("x", 1);
  normalized.normalized = true;
  const AddedTokens tokens = set_of({normalized, token("y", 2)});
  EXPECT_EQ(sections(tokens, "xy"), "x[2:y]");
  EXPECT_EQ(sections(tokens, "xy", true, true), "[1:x]y");
}

TEST(AddedTokens, EmptyAndRepeatedContentIsSkippedAndLongContentRefused) {
  AddedTokens tokens;
  EXPECT_TRUE(tokens.add(token("", 1)).ok());
  EXPECT_TRUE(tokens.add(token("a", 2)).ok());
  EXPECT_TRUE(tokens.add(token("a", 3)).ok());
  EXPECT_EQ(tokens.tokens().size(), 1u);
  EXPECT_FALSE(tokens.add(token(std::string(1025, 'a'), 4)).ok());
}

TEST(AddedTokens, ARunOfBlanksBetweenStrippingTokensTakesLinearTime) {
  AddedToken blank = token(" ", 1);
  blank.lstrip = blank.rstrip = true;
  const AddedTokens tokens = set_of({blank});
  std::vector<TextSection> found;
  tokens.split(std::string(1'000'000, ' '), false, true, found);
  EXPECT_EQ(found.size(), 1'000'000u);
}

}  // namespace
}  // namespace colibri::text
