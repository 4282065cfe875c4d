#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/utf8.h"

namespace colibri::text {
namespace {

std::string in_form(NormalForm form, std::string text) {
  normalize(form, text);
  return text;
}

TEST(Unicode, NormalFormsComposeDecomposeAndOrderMarks) {
  EXPECT_EQ(in_form(NormalForm::kNfc, "e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(in_form(NormalForm::kNfd, "\xC3\xA9"), "e\xCC\x81");
  EXPECT_EQ(in_form(NormalForm::kNfc, "q\xCC\x87\xCC\xA3"), "q\xCC\xA3\xCC\x87");  // the dot below comes first
  EXPECT_EQ(in_form(NormalForm::kNfc, "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"), "\xED\x95\x9C");
  EXPECT_EQ(in_form(NormalForm::kNfc, "\xED\x95\x98\xE1\x86\xAB"), "\xED\x95\x9C");  // a syllable takes a final
  EXPECT_EQ(in_form(NormalForm::kNfc, "\xE3\x81\x8B\xE3\x82\x99"), "\xE3\x81\x8C");  // kana with a voice mark
  EXPECT_EQ(in_form(NormalForm::kNfc, "\xE2\x84\xA6"), "\xCE\xA9");                  // the ohm sign
  EXPECT_EQ(in_form(NormalForm::kNfkc, "\xEF\xAC\x81\xC2\xA0\xE2\x91\xA0"), "fi 1");
  EXPECT_EQ(in_form(NormalForm::kNfkd, "\xEF\xB7\xBA").size(), 33u);  // the longest decomposition there is
  EXPECT_EQ(in_form(NormalForm::kNfc, ""), "");
}

TEST(Unicode, TheFastPathOfNfcChangesNothingThatUtf8procWouldChange) {
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string alone, behind_mark;
    append_utf8(c, alone);
    // U+0301 in front sends the whole text down the slow path without touching the character behind it, unless that
    // combines.
    behind_mark = "\xCC\x81" + alone;
    const std::string slow = in_form(NormalForm::kNfc, behind_mark);
    if (slow.substr(0, 2) != "\xCC\x81") continue;
    ASSERT_EQ(in_form(NormalForm::kNfc, alone), slow.substr(2)) << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(Unicode, AMillionMarksOutOfOrderTakeNoQuadraticTime) {
  std::string text = "a";
  while (text.size() < 1'000'000) text += "\xCC\x81\xCC\xA3";  // above, below, above, ...
  const std::string sorted = in_form(NormalForm::kNfd, text);
  EXPECT_EQ(sorted.size(), text.size());
  EXPECT_EQ(sorted.substr(1, 4), "\xCC\xA3\xCC\xA3");
}

TEST(Unicode, LowerCaseOfTheOneCharacterThatBecomesTwo) {
  std::string text =
      "\xC4\xB0"
      "A\xC3\x89\xCE\xA3";
  lowercase(text);
  EXPECT_EQ(text,
            "i\xCC\x87"
            "a\xC3\xA9\xCF\x83");
}

TEST(Unicode, WordAndBlankAreThoseOfRust) {
  for (const char32_t c : {U'a', U'_', U'9', U'\u0301', U'\u200D', U'\u24B6', U'\u4E2D'}) EXPECT_TRUE(is_word(c));
  for (const char32_t c : {U' ', U'-', U'.', U'\u00B2', U'\u2019'}) EXPECT_FALSE(is_word(c));
  int n = 0;
  for (char32_t c = 0; c < 0x110000; ++c) n += is_whitespace(c);
  EXPECT_EQ(n, 25);
}

}  // namespace
}  // namespace colibri::text
