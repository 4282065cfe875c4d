#include "base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <random>
#include <string>

namespace colibri {
namespace {

Json parsed(std::string_view text) {
  auto json = parse_json(text);
  EXPECT_TRUE(json.ok()) << text << ": " << json.error().message;
  return json.ok() ? *std::move(json) : Json();
}

std::string error_of(std::string_view text, JsonLimits limits = {}) {
  const auto json = parse_json(text, limits);
  if (json.ok()) return "accepted as " + json->dump();
  EXPECT_EQ(json.error().code, ErrorCode::kInvalidModel);
  return json.error().message;
}

#define EXPECT_ERROR(text, words) EXPECT_NE(error_of(text).find(words), std::string::npos) << error_of(text)

TEST(JsonParse, KeepsOrderAndKinds) {
  const Json json = parsed(R"( {"b": [1, 1.0, -2, "x", true, null], "a": {}} )");
  EXPECT_EQ(json.as_object()[0].first, "b");
  EXPECT_EQ(json.as_object()[1].first, "a");
  const auto& items = json.find("b")->as_array();
  EXPECT_TRUE(items[0].is_int() && items[0].as_int() == 1);
  EXPECT_TRUE(items[1].is_double() && items[1].as_double() == 1.0);
  EXPECT_EQ(items[2].as_int(), -2);
  EXPECT_EQ(items[3].as_string(), "x");
  EXPECT_TRUE(items[4].as_bool() && items[5].is_null());
}

TEST(JsonParse, IntegersKeepTheirBitsUpToInt64) {
  EXPECT_EQ(parsed("9223372036854775807").as_int(), INT64_MAX);
  EXPECT_EQ(parsed("-9223372036854775808").as_int(), INT64_MIN);
  EXPECT_EQ(parsed("9223372036854775808").as_double(), 9223372036854775808.0);
  EXPECT_EQ(parsed("18446744073709551615").as_double(), 18446744073709551616.0);
  EXPECT_EQ(parsed("-9223372036854775809").as_double(), -9223372036854775808.0);
  EXPECT_EQ(parsed("123456789012345678901234567890").as_double(), 123456789012345678901234567890.0);
  EXPECT_TRUE(parsed("-0").is_int());
}

TEST(JsonParse, DoublesAreTheNearestOnes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    double value;
    const uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.17g", value);
    ASSERT_EQ(parsed(text).as_double(), value) << text;
  }
  EXPECT_EQ(parsed("1e-320").as_double(), 1e-320);
  EXPECT_EQ(parsed("1e-400").as_double(), 0.0);
  EXPECT_TRUE(std::signbit(parsed("-1e-400").as_double()));
  EXPECT_TRUE(std::signbit(parsed("-0.0").as_double()));
}

TEST(JsonParse, NumbersOutOfRangeAreErrors) {
  EXPECT_ERROR("[1e999]", "line 1, column 7: number out of range");
  EXPECT_ERROR("[-1e400]", "number out of range");
  EXPECT_ERROR("1e99999999999999999999", "number out of range");
  EXPECT_ERROR(std::string(400, '9'), "number out of range");
}

TEST(JsonParse, BareWordsOfPublishedConfigs) {
  const Json json =
      parsed(R"({"limit": [0.0, Infinity], "low": -Infinity, "n": [ NaN ], "Infinity": "NaN\" NaN, Infinity"})");
  EXPECT_EQ(json.find("limit")->as_array()[0].as_double(), 0.0);
  EXPECT_EQ(json.find("limit")->as_array()[1].as_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(json.find("low")->as_double(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(json.find("n")->as_array()[0].as_double()));
  EXPECT_EQ(json.find("Infinity")->as_string(), "NaN\" NaN, Infinity");
  EXPECT_TRUE(std::isinf(parsed("Infinity").as_double()));
  EXPECT_EQ(parsed("[0.0,Infinity,0.0]").as_array()[2].as_double(), 0.0);
}

TEST(JsonParse, WordsThatOnlyLookLikeNumbersStayErrors) {
  for (const char* text : {"NaN5", "1Infinity", "Infinity5", "--Infinity", "- Infinity", "-NaN", "+Infinity", "Infinit",
                           "nan", "inf", "{NaN: 1}", "[Infinity Infinity]", "Infinity.5", "\"a\"NaN"})
    EXPECT_ERROR(text, "JSON line 1, column");
}

TEST(JsonParse, TransformersWrapperIsANumber) {
  EXPECT_TRUE(std::isinf(parsed(R"({"__float__": "Infinity"})").as_double()));
  EXPECT_EQ(parsed(R"([{"__float__": "-Infinity"}])").as_array()[0].as_double(),
            -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(parsed(R"({"__float__": "12"})").is_object());
  EXPECT_TRUE(parsed(R"({"__float__": "NaN", "x": 1})").is_object());
}

TEST(JsonParse, DuplicateKeysAreNamed) {
  EXPECT_ERROR("{\"a\": 1,\n \"b\": 2, \"a\": 3}", "line 2, column 16: duplicate key \"a\"");
  EXPECT_ERROR(R"({"x": {"a": 1, "\u0061": 2}})", "duplicate key \"a\"");
  std::string text = "{";
  for (int i = 0; i < 50; ++i) text += "\"k" + std::to_string(i % 49) + "\": 0,";
  text.back() = '}';
  EXPECT_ERROR(text, "duplicate key \"k0\"");
  EXPECT_TRUE(parse_json(R"({"a": {"a": {"a": 1}}})").ok());
}

TEST(JsonParse, DepthIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(64)).ok());
  EXPECT_ERROR(nested(65), "column 65: nested deeper than 64 levels");
  EXPECT_ERROR(std::string(1 << 20, '['), "nested deeper than 64");
  EXPECT_NE(error_of(nested(4), {.max_depth = 3}).find("deeper than 3"), std::string::npos);
  EXPECT_TRUE(parse_json("1", {.max_depth = 0}).ok());
}

TEST(JsonParse, TextsThatAreNoUnicodeAreErrors) {
  EXPECT_ERROR(R"(["\ud800"])", "surrogate");
  EXPECT_ERROR(R"(["\ud800\u0041"])", "surrogate");
  EXPECT_ERROR(R"(["\udc00"])", "surrogate");
  EXPECT_ERROR(R"(["\u12g4"])", "hexadecimal");
  for (const char* bytes : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    EXPECT_ERROR("[\"" + std::string(bytes) + "\"]", "JSON line 1, column");
    EXPECT_ERROR("{\"" + std::string(bytes) + "\": 1}", "JSON line 1, column");
  }
  EXPECT_EQ(parsed(R"("\ud83d\ude00 \u00e9")").as_string(), "\xf0\x9f\x98\x80 \xc3\xa9");
}

TEST(JsonParse, NulBytesAreErrorsUnlessEscaped) {
  EXPECT_ERROR(std::string_view("[\"a\0b\"]", 7), "unexpected byte 0x00");
  EXPECT_ERROR(std::string_view("[1]\0", 4), "after the end");
  EXPECT_ERROR(std::string_view("\0", 1), "unexpected byte 0x00");
  EXPECT_EQ(parsed(R"("a\u0000b")").as_string(), std::string("a\0b", 3));
}

TEST(JsonParse, GrammarIsStrict) {
  for (const char* text :
       {"",   " ",   "[1,]", "{\"a\":1,}", "[1 2]", "{a:1}",   "{'a':1}", "01",  "+1",     ".5",      "1.",
        "1e", "tru", "[1",   "{\"a\"",     "\"a",   "// c\n1", "[]]",     "1 2", "\"\t\"", "\"\\x\"", "\xef\xbb\xbf[]"})
    EXPECT_ERROR(text, "JSON line");
}

TEST(JsonParse, ErrorsSayWhere) {
  EXPECT_ERROR("{\n  \"a\": 1,\n  \"\xc3\xa9\": x\n}", "line 3, column 8: unexpected 'x'");
  EXPECT_ERROR("[1, 2", "line 1, column 6: the text ends too early");
  EXPECT_ERROR("[1]\n]", "line 2, column 1: text after the end");
  EXPECT_ERROR("[Infinity,\nInfinity, y]", "line 2, column 11: unexpected 'y'");
}

TEST(JsonParse, ALargeObjectIsReadInLinearTime) {
  std::string text = "{\"vocab\": {";
  for (int i = 0; i < 200000; ++i) text += "\"token" + std::to_string(i) + "\": " + std::to_string(i) + ", ";
  text += "\"Infinity\": 1}, \"merges\": [";
  for (int i = 0; i < 200000; ++i) text += "\"to ken" + std::to_string(i) + "\", ";
  text += "\"\"]}";
  const std::clock_t start = std::clock();
  const Json json = parsed(text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // processor time
  EXPECT_EQ(json.find("vocab")->as_object().size(), 200001u);
  EXPECT_LT(seconds, 10.0);  // 0.1 s in a release build; quadratic code takes minutes
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
}

TEST(JsonDump, OneLineAndIndented) {
  const Json json = parsed(R"({"a":[1,2.0,"x\n\u0001\"\\"],"b":{},"c":[],"d":null,"e":false})");
  EXPECT_EQ(json.dump(), R"({"a": [1, 2.0, "x\n\u0001\"\\"], "b": {}, "c": [], "d": null, "e": false})");
  EXPECT_EQ(parsed(R"({"a":[1,{"b":[]}]})").dump(2), "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ]\n}");
}

TEST(JsonDump, DoublesAreShortAndExact) {
  for (const auto& [value, text] : {std::pair{0.1, "0.1"},
                                    {1.0, "1.0"},
                                    {100000.0, "100000.0"},
                                    {1e15, "1000000000000000.0"},
                                    {1e16, "1e+16"},
                                    {0.0001, "0.0001"},
                                    {0.00001, "1e-05"},
                                    {-1.5e300, "-1.5e+300"},
                                    {0.0, "0.0"},
                                    {-0.0, "-0.0"},
                                    {5e-324, "5e-324"}})
    EXPECT_EQ(Json(value).dump(), text);
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    double value;
    const uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) {
      ASSERT_EQ(parsed(Json(value).dump()).as_double(), value);
    }
  }
}

TEST(JsonDump, IsAlwaysValidJson) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Json(infinity).dump(), R"({"__float__": "Infinity"})");
  EXPECT_EQ(parsed(Json(-infinity).dump()).as_double(), -infinity);
  EXPECT_TRUE(std::isnan(parsed(Json(std::nan("")).dump()).as_double()));
  EXPECT_EQ(Json("a\xff\xed\xa0\x80z\xe2\x82").dump(),
            "\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(Json("\xc3\xa9\xf0\x9f\x98\x80").dump(), "\"\xc3\xa9\xf0\x9f\x98\x80\"");
}

TEST(JsonValue, FindSetPush) {
  Json json;
  json.set("a", 1).set("b", nullptr).set("a", "x");
  EXPECT_EQ(json.dump(), R"({"a": "x", "b": null})");
  EXPECT_NE(json.find("b"), nullptr);
  EXPECT_EQ(json.find_value("b"), nullptr);
  EXPECT_EQ(json.find("c"), nullptr);
  EXPECT_EQ(Json(1).find("a"), nullptr);
  Json list;
  list.push_back(1).push_back(Json::Array{2, 3});
  EXPECT_EQ(list.dump(), "[1, [2, 3]]");
  EXPECT_EQ(Json(UINT64_MAX).as_double(), 18446744073709551616.0);
  EXPECT_TRUE(Json(uint64_t{5}).is_int());
}

TEST(JsonValueDeathTest, SetOnANumberIsAProgrammingError) {
  Json json(1);
  EXPECT_DEATH(json.set("a", 1), "internal error");
}

}  // namespace
}  // namespace colibri
