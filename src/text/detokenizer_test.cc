#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/decoder.h"
#include "text/test_vectors.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

/// Streams the ids and checks that each part is whole characters.
std::string stream(const Tokenizer& tokenizer, const TokenIds& ids, bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string out;
  for (const TokenId id : ids) {
    std::string part;
    detokenizer.push(id, part);
    EXPECT_TRUE(is_valid_utf8(part)) << "after token " << id;
    out += part;
  }
  detokenizer.finish(out);
  return out;
}

void expect_streams(const TokenizerCase& one) {
  const auto loaded = Tokenizer::from_json(one.json, one.config, one.name);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const Tokenizer& tokenizer = loaded.value();
  for (const auto& v : one.vectors) {
    EXPECT_EQ(stream(tokenizer, v.ids, false), v.decoded) << one.name;
    EXPECT_EQ(stream(tokenizer, v.ids, true), v.decoded_skip) << one.name;
  }
  std::mt19937 random(5);
  const auto n = static_cast<uint32_t>(tokenizer.vocab_size());
  for (int round = 0; round < 300; ++round) {
    TokenIds ids(random() % 24);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % (random() % 2 ? n + 3 : std::min(n, 300u)));
    for (const bool skip : {false, true}) {
      ASSERT_EQ(stream(tokenizer, ids, skip), tokenizer.decode(ids, skip)) << one.name;
    }
  }
}

TEST(Detokenizer, StreamsEveryVectorAndRandomIdsOfOurOwnTokenizers) {
  for (const auto& one : own_cases()) expect_streams(one);
}

TEST(Detokenizer, StreamsEveryVectorAndRandomIdsOfPublishedTokenizers) {
  const auto& cases = shared_cases();
  if (cases.empty()) GTEST_SKIP() << "no shared data";
  for (const auto& one : cases) expect_streams(one);
}

TEST(Detokenizer, GivesTextAsSoonAsItIsCertain) {
  for (const auto& one : own_cases()) {
    if (one.name != "qwen") continue;
    const auto tokenizer = Tokenizer::from_json(one.json, {}, one.name);
    Detokenizer detokenizer(*tokenizer);
    std::string parts;
    for (const TokenId id : tokenizer->encode("a\xF4\x8F\xBF\xBF"
                                              "b")) {
      parts += '[';
      detokenizer.push(id, parts);
      parts += ']';
    }
    EXPECT_EQ(parts, "[a][][][][\xF4\x8F\xBF\xBF][b]");
  }
}

std::string decode(const std::string& json, const std::vector<std::string>& tokens) {
  const Json value = parse_json(json).value();
  const auto decoder = Decoder::parse(&value);
  if (!decoder.ok()) return std::string("error: ").append(decoder.error().message);
  DecodeStream stream(*decoder, 8);
  std::string out;
  for (const auto& token : tokens) stream.push(token, out);
  stream.finish(out);
  return out;
}

TEST(Decoder, ByteTokensAreReadStrictly) {
  const std::string json = R"({"type":"ByteFallback"})";
  EXPECT_EQ(decode(json, {"<0xE4>", "<0xBD>", "<0xA0>"}), "\xE4\xBD\xA0");
  EXPECT_EQ(decode(json, {"<0xe4>", "<0xbd>", "<0xa0>"}), "\xE4\xBD\xA0");
  EXPECT_EQ(decode(json, {"<0x-1>", "<0xZZ>", "<0x+A>", "<0x 1>", "<0x1>", "<0x001>"}),
            "<0x-1><0xZZ><0x+A><0x 1><0x1><0x001>");
  // One invalid byte spoils its whole run, a byte that another token separates does not.
  EXPECT_EQ(decode(json, {"<0x41>", "<0xFF>", "x", "<0x42>"}), "\xEF\xBF\xBD\xEF\xBF\xBDxB");
  EXPECT_EQ(decode(json, {"<0xE4>"}), "\xEF\xBF\xBD");
}

TEST(Decoder, StripMetaspaceAndJoin) {
  EXPECT_EQ(decode(R"({"type":"Strip","content":"-","start":2,"stop":1})", {"---a--", "-b"}), "-a-b");
  const std::string fused =
      R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":"-","start":2,"stop":1}]})";
  EXPECT_EQ(decode(fused, {"-", "--a-", "-", "-"}), "-a--");
  EXPECT_EQ(decode(fused, {"--", "a", "-", "b"}), "a-b");
  EXPECT_EQ(decode(fused, {"-", "-", "-"}), "");
  EXPECT_EQ(decode(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"always"})", {"_a", "_b_c"}), "a b c");
  EXPECT_EQ(decode(R"({"type":"Metaspace","replacement":"_","prepend_scheme":"never"})", {"_a", "_b"}), " a b");
  EXPECT_EQ(decode("null", {"a", "b"}), "a b");
  EXPECT_EQ(decode(R"({"type":"WordPiece"})", {}), "error: decoder \"WordPiece\" is not supported");
  EXPECT_EQ(decode(R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})", {}).substr(0, 5),
            "error");
}

std::string reference_cut(const std::string& text, const std::vector<std::string>& stops, bool& stopped) {
  size_t first = std::string::npos;
  for (const auto& stop : stops) {
    if (!stop.empty()) first = std::min(first, text.find(stop));
  }
  stopped = first != std::string::npos;
  return text.substr(0, first);
}

/// Every way of cutting the text into parts.
void expect_every_split(const std::string& text, const std::vector<std::string>& stops) {
  bool expect_stop = false;
  const std::string expected = reference_cut(text, stops, expect_stop);
  for (uint32_t cuts = 0; cuts < 1u << (text.size() - 1); ++cuts) {
    StopMatcher matcher(stops);
    std::string out, part;
    for (size_t i = 0; i < text.size(); ++i) {
      part += text[i];
      if (cuts >> i & 1) matcher.push(std::exchange(part, ""), out);
    }
    matcher.push(part, out);
    matcher.finish(out);
    ASSERT_EQ(out, expected) << text << " cut by " << cuts;
    ASSERT_EQ(matcher.stopped(), expect_stop) << text;
  }
}

TEST(StopMatcher, EqualsASearchInTheWholeTextForEverySplit) {
  expect_every_split("hello STOP x", {"STOP"});
  expect_every_split("xaabaabaac", {"aabaac"});
  expect_every_split("abcabd", {"abd", "bca"});
  expect_every_split("xabcx", {"abcd", "c"});
  expect_every_split("abcd", {"abcd", "c"});
  expect_every_split("abab", {"abc", "b"});
  expect_every_split("ab", {"abc"});
  expect_every_split("x\xF0\x9F\x98\x80y", {"\xF0\x9F\x98\x81", "\xF0\x9F\x98\x80"});
  expect_every_split("\n\n\n", {"\n\n"});
}

TEST(StopMatcher, RandomTextsAndStops) {
  std::mt19937 random(3);
  const auto word = [&](size_t most) {
    std::string out;
    for (size_t n = random() % most + 1; n > 0; --n) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> stops;
    for (size_t n = random() % 3 + 1; n > 0; --n) stops.push_back(word(5));
    expect_every_split(word(9), stops);
  }
}

TEST(StopMatcher, ShowsTextThatCannotBecomeAStop) {
  StopMatcher matcher({"", "</s>"});
  std::string shown;
  matcher.push("a<b", shown);
  EXPECT_EQ(shown, "a<b");
  matcher.push("c<", shown);
  EXPECT_EQ(shown, "a<bc");
  matcher.push("/", shown);
  matcher.push("s>d", shown);
  EXPECT_TRUE(matcher.stopped());
  matcher.push("more", shown);
  matcher.finish(shown);
  EXPECT_EQ(shown, "a<bc");
  StopMatcher none({""});
  none.push("x", shown);
  EXPECT_EQ(shown, "a<bcx");
  none.finish(shown);
  EXPECT_EQ(shown, "a<bcx");
}

TEST(StopMatcher, ALongStopStringTakesLinearTime) {
  StopMatcher matcher({std::string(100'000, 'a') + "b"});
  std::string shown;
  for (int i = 0; i < 300'000; ++i) matcher.push("a", shown);
  EXPECT_EQ(shown.size(), 200'000u);
  matcher.push("b", shown);
  EXPECT_TRUE(matcher.stopped());
}

}  // namespace
}  // namespace colibri::text
