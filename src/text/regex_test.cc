#include "text/regex.h"

#include <gtest/gtest.h>

#include "text/oniguruma.h"
#include "text/pattern.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

/// The matches and what stands between them, separated by "/".
std::string cut(const std::string& pattern, const std::string& text) {
  auto regex = Pattern::regex(pattern);
  if (!regex.ok()) return std::string("error: ").append(regex.error().message);
  RegexWorkspace workspace;
  std::string out;
  size_t done = 0;
  const auto add = [&](size_t begin, size_t end) {
    if (begin != end) out.append(out.empty() ? "" : "/").append(text, begin, end - begin);
  };
  regex->for_each_match(text, workspace, [&](size_t begin, size_t end) {
    add(done, begin);
    add(begin, end);
    done = end;
  });
  add(done, text.size());
  return out;
}

bool is_refused(const std::string& pattern) { return cut(pattern, "x").substr(0, 6) == "error:"; }

// What tokenizers 0.23 (Oniguruma) makes of these; PCRE2 alone reads most of them differently.
TEST(Regex, PatternsMeanWhatTheyMeanToOniguruma) {
  EXPECT_EQ(cut(R"(\s+$)", "a  \n b  \n\n  c  "), "a/  /\n b/  \n/\n  c/  ");
  EXPECT_EQ(cut(R"(\d{1,3}+)", "a1234567b"), "a/1234567/b");
  EXPECT_EQ(cut("a{2}+", "aaaaa"), "aaaa/a");
  EXPECT_EQ(cut(R"(\p{N}{1,3}?)", "1234"), "1/2/3/4");
  EXPECT_EQ(cut(R"(\d{,2}x)", "123x"), "1/23x");
  EXPECT_EQ(cut(R"(\h+)", "xfz"), "x/f/z");
  EXPECT_EQ(cut("(?i:'s)", "a'\xC5\xBF b'S"), "a/'\xC5\xBF/ b/'S");
  EXPECT_EQ(cut(R"(a\b)", "a\xCC\x81 a a\xE2\x92\xB6"), "a\xCC\x81 /a/ a\xE2\x92\xB6");
  EXPECT_EQ(cut("(?m:a.b)", "a\nb"), "a\nb");
  EXPECT_EQ(cut("a.b", "a\nb"), "a\nb");
  EXPECT_EQ(cut("[a[bc]]+", "xabcx"), "x/abc/x");
  EXPECT_EQ(cut(R"([\w&&[^a]]+)", "xabcx"), "x/a/bcx");
  EXPECT_EQ(cut(R"([^\w&&[^a]]+)", "x!abcx"), "x/!a/bcx");
  EXPECT_EQ(cut("[a-c&&b-d]", "abcd"), "a/b/c/d");
  EXPECT_EQ(cut("[a&&]", "a"), "a");
  EXPECT_EQ(cut("[]a]", "a]b"), "a/]/b");
  EXPECT_EQ(cut("[^]a]", "a]b"), "a]/b");
  EXPECT_EQ(cut("[[^a]b]+", "abc"), "a/bc");
  EXPECT_EQ(cut("[^[^a]b]+", "abc"), "a/bc");
  EXPECT_EQ(cut(R"([\S]+)", "a b"), "a/ /b");
  EXPECT_EQ(cut(R"([^\S\n]+)", "a b \n"), "a/ /b/ /\n");
  EXPECT_EQ(cut(R"([\p{Lo}&&[^\p{Han}]]+)", "\xE6\xBC\xA2\xE0\xB9\x84\xE0\xB8\x97"),
            "\xE6\xBC\xA2/\xE0\xB9\x84\xE0\xB8\x97");
  EXPECT_EQ(cut("\\u0061+", "xaab"), "x/aa/b");
  EXPECT_EQ(cut(R"(\x{61}+)", "xaab"), "x/aa/b");
  EXPECT_EQ(cut(R"(\v)",
                "a\x0B"
                "b"),
            "a/\x0B/b");
  EXPECT_EQ(cut(R"(\s)",
                "a\xE1\xA0\x8E"
                "b"),
            "a\xE1\xA0\x8E"
            "b");                                                // U+180E is no blank
  EXPECT_EQ(cut(R"(\p{Han})", "\xE3\x80\x81"), "\xE3\x80\x81");  // U+3001 is not of this script
  EXPECT_EQ(cut(R"(\p{^L}+)", "a1"), "a/1");
  EXPECT_EQ(cut("", "abc"), "a/b/c");
  EXPECT_EQ(cut("x*", "axb"), "a/x/b");
  EXPECT_EQ(cut("(?<=a)b", "ab b"), "a/b/ b");
  EXPECT_EQ(cut(R"(\Ga)", "aab"), "a/a/b");
  EXPECT_EQ(cut("a]", "a]"), "a]");
  EXPECT_EQ(cut("a{x}", "a{x}"), "a{x}");
  EXPECT_EQ(cut("a{,", "a{,"), "a{,");
  EXPECT_EQ(cut(R"([\s-x])", "-"), "-");
  EXPECT_EQ(cut("\xC3\xA9{2}+", "\xC3\xA9\xC3\xA9\xC3\xA9"), "\xC3\xA9\xC3\xA9/\xC3\xA9");
}

TEST(Regex, CharactersNewerThanPcre2HaveTheirCategory) {
  EXPECT_EQ(cut(R"(\p{S}+)", "a\xF0\x9F\xA9\xB7\xF0\x9F\xA9\xB7z"), "a/\xF0\x9F\xA9\xB7\xF0\x9F\xA9\xB7/z");  // U+1FA77
  EXPECT_EQ(cut(R"([\p{Han}]+)", "a\xF0\xB1\x8D\x90z"), "a/\xF0\xB1\x8D\x90/z");                              // U+31350
  EXPECT_EQ(cut(R"([^\P{L}]+)", "1\xF0\xB1\x8D\x90z1"), "1/\xF0\xB1\x8D\x90z/1");
}

TEST(Regex, BlanksAndTheRestAreAllCharacters) {
  std::string all;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(c, all);
  }
  for (const auto& [pattern, count] : {std::pair(R"(\s)", 25), std::pair(R"([\s])", 25), std::pair(R"([^\S])", 25)}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok());
    RegexWorkspace workspace;
    RegexSearch search(*regex, all, workspace);
    int n = 0;
    for (Regex::Match match{}; search.next(match);) ++n;
    EXPECT_EQ(n, count) << pattern;
  }
}

TEST(Regex, WhatMayMeanSomethingElseIsRefused) {
  for (const char* pattern :
       {"(*ACCEPT)a", "(?s:.)",          "(?R)",   "(?~a)", R"(\Qa.\E)", R"(\C)", R"(\1)",          R"(\X)", R"(a\K)",
        R"(\p{)",     R"(\p{Nonsense})", R"(\pL)", R"([a)", "(a",        "a)",    R"([[:alpha:]])", "\\",    R"([\)",
        R"(\x{})",    R"(\x{110000})",   "[b-a]",  "\xFF"}) {
    EXPECT_TRUE(is_refused(pattern)) << pattern;
  }
  EXPECT_TRUE(is_refused(std::string(10000, '(')));
  EXPECT_TRUE(is_refused(std::string(10000, '[')));
}

TEST(Regex, ALongRunOfAGroupNeedsNoStack) {
  const auto regex = Regex::compile(R"((?:(?=\w)[^b])*x|[\w&&[^b]]+)");
  ASSERT_TRUE(regex.ok()) << regex.error().message;
  const std::string text(2'000'000, 'a');
  RegexWorkspace workspace;
  RegexSearch search(*regex, text, workspace);
  Regex::Match match{};
  ASSERT_TRUE(search.next(match));
  EXPECT_EQ(match.end, text.size());
}

std::string pieces(const std::string& json, const std::string& text) {
  const Json value = parse_json(json).value();
  const auto pre = PreTokenizer::parse(&value);
  if (!pre.ok()) return std::string("error: ").append(pre.error().message);
  RegexWorkspace workspace;
  Pieces all;
  all.text = text;
  pre->split(all, workspace);
  std::string out;
  for (const auto span : all.spans) out.append(out.empty() ? "" : "/").append(all.view(span));
  return out;
}

std::string split(const std::string& behavior, const std::string& more = "") {
  return std::string(R"({"type":"Split","pattern":{"String":"-"},"behavior":")")
      .append(behavior)
      .append("\"")
      .append(more)
      .append("}");
}

TEST(PreTokenizer, EveryBehaviorOfSplit) {
  const std::string text = "-a--b-";
  EXPECT_EQ(pieces(split("Isolated"), text), "-/a/-/-/b/-");
  EXPECT_EQ(pieces(split("Removed"), text), "a/b");
  EXPECT_EQ(pieces(split("MergedWithPrevious"), text), "-/a-/-/b-");
  EXPECT_EQ(pieces(split("MergedWithNext"), text), "-a/-/-b/-");
  EXPECT_EQ(pieces(split("Contiguous"), text), "-/a/--/b/-");
  EXPECT_EQ(pieces(split("Removed", R"(,"invert":true)"), text), "-/-/-/-");
  EXPECT_EQ(pieces(split("Sideways"), text).substr(0, 5), "error");
}

TEST(PreTokenizer, TheOtherKinds) {
  EXPECT_EQ(pieces(R"({"type":"Digits","individual_digits":true})", "a12b"), "a/1/2/b");
  EXPECT_EQ(pieces(R"({"type":"Digits","individual_digits":false})", "a12b"), "a/12/b");
  EXPECT_EQ(pieces(R"({"type":"Punctuation","behavior":"Isolated"})", "a,b$$c"), "a/,/b/$/$/c");
  EXPECT_EQ(pieces(R"({"type":"Whitespace"})", "a b, c!"), "a/b/,/c/!");
  EXPECT_EQ(pieces(R"({"type":"WhitespaceSplit"})", " a b,\tc"), "a/b,/c");
  EXPECT_EQ(pieces(R"({"type":"ByteLevel"})", "a b's"), " a/ b/'s");
  EXPECT_EQ(pieces(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"always"})", "a b"), "_a/_b");
  EXPECT_EQ(pieces(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"never","split":false})", "a b"), "a_b");
  EXPECT_EQ(pieces(R"({"type":"Metaspace","replacement":"__"})", "a").substr(0, 5), "error");
  EXPECT_EQ(pieces(R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]})", "a").substr(0, 5),
            "error");
  EXPECT_EQ(pieces("null", "a b"), "a b");
}

}  // namespace
}  // namespace colibri::text
