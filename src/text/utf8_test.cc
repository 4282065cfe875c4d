#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace colibri::text {
namespace {

std::string repaired(std::string_view text) {
  std::string storage;
  return std::string(valid_utf8(text, storage));
}

constexpr const char* kR = "\xEF\xBF\xBD";
std::string r(int n) {
  std::string out;
  while (n-- > 0) out += kR;
  return out;
}

// Expected values are those of Python's bytes.decode(errors="replace").
TEST(Utf8, AnInvalidSequenceBecomesOneReplacementPerMaximalSubpart) {
  EXPECT_EQ(repaired("abc"), "abc");
  EXPECT_EQ(repaired("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(repaired("\xFF"), r(1));
  EXPECT_EQ(repaired("\x80\x80"), r(2));
  EXPECT_EQ(repaired("\xC3"), r(1));
  EXPECT_EQ(repaired("\xC3x"), r(1) + "x");
  EXPECT_EQ(repaired("\xF0\x9F\x98"), r(1));
  EXPECT_EQ(repaired("\xF0\x9F\x98x"), r(1) + "x");
  EXPECT_EQ(repaired("\xF0\x9F\xF0\x9F\x98\x80"), r(1) + "\xF0\x9F\x98\x80");
  EXPECT_EQ(repaired("\xC0\x80"), r(2));          // overlong
  EXPECT_EQ(repaired("\xE0\x80\x80"), r(3));      // overlong
  EXPECT_EQ(repaired("\xED\xA0\x80"), r(3));      // a surrogate
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), r(4));  // above U+10FFFF
  EXPECT_EQ(repaired("\xF5\x80\x80\x80"), r(4));
}

TEST(Utf8, EveryCharacterSurvivesWritingAndReading) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(c, text);
  }
  EXPECT_TRUE(is_valid_utf8(text));
  size_t pos = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const size_t start = pos;
    ASSERT_EQ(next_character(text, pos), c);
    ASSERT_EQ(previous_start(text, pos), start);
  }
  EXPECT_EQ(pos, text.size());
}

TEST(Utf8Stream, AnySplitGivesTheSameAsTheWhole) {
  std::mt19937 random(7);
  const std::string alphabet = "aZ\x80\xBF\xC3\xA9\xE2\x82\xAC\xED\xA0\xF0\x9F\x98\x80\xF4\x8F\xFF";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes, out;
    for (size_t n = random() % 12; n > 0; --n) bytes += alphabet[random() % alphabet.size()];
    Utf8Stream stream;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t n = random() % 3;
      const size_t before = out.size();
      stream.push(std::string_view(bytes).substr(pos, n), out);
      ASSERT_TRUE(is_valid_utf8(out.substr(before)));
      pos += n;
    }
    stream.finish(out);
    ASSERT_EQ(out, repaired(bytes));
  }
}

}  // namespace
}  // namespace colibri::text
