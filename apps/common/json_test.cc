#include "common/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace colibri::common {
namespace {

std::string message_of(std::string_view text) {
  const auto value = parse_json(text, "FILE");
  return value.ok() ? "" : value.error().message;
}

TEST(Json, ErrorsNameFileLineAndColumn) {
  EXPECT_NE(std::string::npos, message_of("{\n \"a\": 1,\n x}").find("FILE"));
  EXPECT_NE(std::string::npos, message_of("{\n \"a\": 1,\n x}").find("line 3 column 2"));
}

TEST(Json, WhatIsNoJsonIsRefused) {
  for (const char* text : {"", " ", "{", "[1,]", "1 2", "\"\xff\"", "\"\\ud800\"", "{\"a\":1,\"a\":2}", "nul", "'a'",
                           "{\"a\":{\"b\":1,\"b\":1}}"}) {
    EXPECT_NE("", message_of(text)) << text;
  }
}

TEST(Json, EqualKeysOfDifferentObjectsAreFine) { EXPECT_EQ("", message_of(R"([{"a":{"a":1}},{"a":1}])")); }

TEST(Json, DepthIsBounded) {
  EXPECT_EQ("", message_of(std::string(60, '[') + std::string(60, ']')));
  EXPECT_NE("", message_of(std::string(100000, '[')));
}

TEST(Json, NumbersAreShortAndNeverUnreadable) {
  EXPECT_EQ("[1.5, 0.1, 1, -3, 18446744073709551615, null, null]",
            dump_json(json::array{1.5, 0.1, 1.0, -3, std::numeric_limits<uint64_t>::max(),
                                  std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}));
}

TEST(Json, StringsSurviveTheRoundTrip) {
  std::string every;
  for (int c = 0; c < 128; ++c) every += static_cast<char>(c);
  every += "\xc3\xa9\xf0\x9f\x90\xa6\xe2\x80\xa8";
  std::string quoted;
  append_json_string(quoted, every);
  EXPECT_EQ(std::string::npos, quoted.find('\n'));
  const auto value = parse_json(quoted, "");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(every, std::string(value->get_string().data(), value->get_string().size()));
}

TEST(Json, IndentedTextKeepsListsOfNumbersTogether) {
  EXPECT_EQ("{\n  \"a\": [1, 2],\n  \"b\": {}\n}", dump_json(json::object{{"a", {1, 2}}, {"b", json::object{}}}, 2));
}

TEST(Json, TokenIdsAreIntegersOf32Bits) {
  size_t bad = 0;
  EXPECT_EQ((TokenIds{1, -2}), token_ids(json::array{1, -2}, &bad));
  EXPECT_FALSE(token_ids(json::array{1, 2.0}, &bad));
  EXPECT_EQ(1U, bad);
  EXPECT_FALSE(token_ids(json::array{int64_t{1} << 31}, &bad));
  EXPECT_FALSE(token_ids(json::array{"1"}, &bad));
}

}  // namespace
}  // namespace colibri::common
