#include "sampling/constraint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/check.h"
#include "sampling/json_check.h"

namespace colibri::sampling {
namespace {

constexpr TokenId kEnd = 256;

// Every byte is a token, and then some that cut and cross what JSON is made of.
std::vector<TokenTexts::Token> byte_vocabulary() {
  std::vector<TokenTexts::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
  tokens.push_back({"<end>", true});
  for (const char* text : {"{\"",      "\":",      "\": ",     "\", \"", "\"}", "}}",  "]}",  ", ",
                           "[[",       "true",     "ull",      "12",     ".5",  "e+",  "\\u", "\\\"",
                           "\xC3\xA9", "\xE2\x82", "\x82\xAC", "\n    ", "abc", "a\"", "\",", "ab\xF0\x9F"})
    tokens.push_back({text, false});
  tokens.push_back({"<call>", true});
  return tokens;
}

const TokenTexts& bytes_only() {
  static const TokenTexts texts = [] {
    const TokenId ends[] = {kEnd};
    return TokenTexts::build(byte_vocabulary(), ends);
  }();
  return texts;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A vocabulary as models have them.
const TokenTexts& real_vocabulary() {
  static const TokenTexts texts = [] {
    const std::filesystem::path folder = std::filesystem::path(COLIBRI_SOURCE_DIR) / "tests/data/tokenizers/qwen";
    const auto tokenizer = text::Tokenizer::from_json(read_text(folder / "tokenizer.json"), Json(), "qwen");
    COLIBRI_CHECK(tokenizer.ok());
    const TokenId ends[] = {tokenizer->find("<|end|>")};
    return TokenTexts::build(*tokenizer, ends);
  }();
  return texts;
}

Constraint compiled(const std::string& document, const TokenTexts& texts = bytes_only()) {
  const auto constraint = Constraint::parse(document, texts);
  EXPECT_TRUE(constraint.ok()) << document << ": " << (constraint.ok() ? "" : constraint.error().message);
  return constraint.ok() ? *constraint : *Constraint::parse(R"({"literal": "does not compile"})", texts);
}

std::string refusal(const std::string& document) {
  const auto constraint = Constraint::parse(document, bytes_only());
  if (constraint.ok()) return "";
  EXPECT_EQ(constraint.error().code, ErrorCode::kUsage);
  return constraint.error().message;
}

// Byte by byte: -1 whole, else how many bytes were accepted (all of them: not whole yet).
int64_t reading(const Constraint& constraint, std::string_view text) {
  ConstraintState state(constraint, bytes_only());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto token = static_cast<TokenId>(static_cast<uint8_t>(text[i]));
    const bool allowed = state.allowed().test(token);
    EXPECT_EQ(state.accept(token), allowed) << text << " at " << i;
    if (!allowed) return static_cast<int64_t>(i);
  }
  EXPECT_EQ(state.allowed().test(kEnd), state.complete());
  return state.complete() ? -1 : static_cast<int64_t>(text.size());
}

bool accepts(const Constraint& constraint, std::string_view text) { return reading(constraint, text) == -1; }

struct Case {
  std::string schema;
  std::vector<std::string> right, wrong;
};

void check(const Case& c) {
  const Constraint constraint = compiled(R"({"schema": )" + c.schema + "}");
  for (const std::string& text : c.right)
    EXPECT_TRUE(accepts(constraint, text)) << c.schema << " should allow " << text;
  for (const std::string& text : c.wrong)
    EXPECT_FALSE(accepts(constraint, text)) << c.schema << " should not allow " << text;
}

// ---- schemas -------------------------------------------------------------------------------------------------------

TEST(Schema, Types) {
  check({R"({"type": "boolean"})", {"true", "false"}, {"null", "tru", "1", "\"true\""}});
  check({R"({"type": "null"})", {"null"}, {"nul", "false"}});
  check({R"({"type": ["string", "null"]})", {"null", "\"a\""}, {"1"}});
  check({R"({"type": "string", "nullable": true})", {"null", "\"a\""}, {"true"}});
  check({R"({})",
         {"1", "[]", "{}", "\"\"", "{\"a\": [1, {\"b\": null}]}"},
         {"", "[1", "{\"a\"}", "{1: 2}", "[1,]", "01"}});
  check({"true", {"1", "[]"}, {"x"}});
}

TEST(Schema, Strings) {
  check({R"({"type": "string"})",
         {"\"\"", "\"a b\"", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\"\\n\\u00e9\\\"\\/\"", "\"\\ud83d\\ude00\"",
          "\"\x7F\""},
         {"\"\n\"", "\"\\x\"", "\"\xC3\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xF5\"", "\"\\ud83d\"", "\"\\ude00\"",
          "\"a\"b", "a"}});
  check({R"({"type": "string", "minLength": 2, "maxLength": 3})",
         {"\"ab\"", "\"\xC3\xA9\\n\xF0\x9F\x98\x80\"", "\"\\ud83d\\ude00a\""},
         {"\"a\"", "\"abcd\"", "\"\xC3\xA9\""}});
  check({R"({"type": "string", "minLength": 2})", {"\"ab\"", "\"abcdefghij\""}, {"\"a\"", "\"\""}});
  check({R"({"type": "string", "maxLength": 0})", {"\"\""}, {"\"a\""}});
}

TEST(Schema, Patterns) {
  check({R"({"type": "string", "pattern": "^[a-c]+\\d{2,3}$"})",
         {"\"a12\"", "\"abc123\""},
         {"\"a1\"", "\"d12\"", "\"a1234\""}});
  check({R"({"pattern": "b+"})", {"\"b\"", "\"xxbby\\n\""}, {"\"a\"", "\"\""}});
  check({R"-({"pattern": "^(foo|ba?r)$|^x"})-",
         {"\"foo\"", "\"br\"", "\"bar\"", "\"xyz\""},
         {"\"fo\"", "\"foox\"", "\"ax\""}});
  check({R"({"pattern": "^[^\\s\"\\\\]*$"})", {"\"abc\xC3\xA9\"", "\"\""}, {"\"a b\"", "\"\\\"\"", "\"\\n\""}});
  check({R"({"pattern": "^\"\\n$"})", {"\"\\\"\\n\""}, {"\"\\\"n\""}});
  check({R"({"pattern": "^\\w+$", "maxLength": 3, "minLength": 2})",
         {"\"ab\"", "\"a_9\""},
         {"\"a\"", "\"abcd\"", "\"a-b\""}});
  check({R"({"pattern": "^[\\u00e9-\\u20ac]$"})", {"\"\xC3\xA9\"", "\"\xE2\x82\xAC\""}, {"\"e\"", "\"\xE2\x82\xAD\""}});
  check({R"({"pattern": "^.{3}?$"})", {"\"abc\""}, {"\"ab\"", "\"a\\nb\""}});
  check({R"({"pattern": "^(?:[-a]|[^]){2}\\x41$"})", {"\"-zA\""}, {"\"-A\""}});
}

TEST(Schema, Formats) {
  check({R"({"type": "string", "format": "date"})",
         {"\"2024-02-28\"", "\"1999-12-31\""},
         {"\"2024-02-30\"", "\"2024-13-01\"", "\"24-01-01\""}});
  check({R"({"type": "string", "format": "date-time"})",
         {"\"2024-02-28T23:59:59Z\"", "\"2024-02-28T00:00:00.25+01:30\""},
         {"\"2024-02-28\"", "\"2024-02-28T24:00:00Z\""}});
  check({R"({"type": "string", "format": "time"})", {"\"10:20:30Z\""}, {"\"10:20\""}});
  check({R"({"type": "string", "format": "uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567\""}});
  check({R"({"type": "string", "format": "ipv4"})",
         {"\"127.0.0.1\"", "\"255.249.199.9\""},
         {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}});
  check({R"({"type": "string", "format": "email"})", {"\"a.b+c@example.org\""}, {"\"a@b\"", "\"@example.org\""}});
  check({R"({"type": "string", "format": "uri"})", {"\"https://example.org/a?b=c#d\""}, {"\"example.org\""}});
  check({R"({"type": "string", "format": "duration"})", {"\"P3DT4H\"", "\"PT5M\""}, {"\"P\"", "\"P1DT\""}});
}

TEST(Schema, Numbers) {
  check({R"({"type": "integer"})",
         {"0", "-1", "123456789012345678"},
         {"-0", "01", "1.0", "1e3", "1234567890123456789", ""}});
  check({R"({"type": "number"})", {"0", "-0.5", "12.25", "1e10", "-1.5E-3"}, {".5", "1.", "1e", "1e100", "+1", "00"}});
  check({R"({"type": "integer", "minimum": -5, "maximum": 120})",
         {"-5", "-1", "0", "7", "99", "100", "120"},
         {"-6", "-10", "121", "200", "1200", "007"}});
  check({R"({"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 100})", {"10", "99"}, {"9", "100"}});
  check({R"({"type": "integer", "minimum": 1.5, "exclusiveMaximum": 3.5})", {"2", "3"}, {"1", "4"}});
  check({R"({"type": "integer", "minimum": 18})", {"18", "19", "100", "999999999999999999"}, {"17", "9", "-18"}});
  check({R"({"type": "integer", "maximum": -18})", {"-18", "-100"}, {"-17", "0", "18"}});
  check({R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "0.5", "1", "0.0"}, {"-0.1", "1.1", "2", "1.0e1"}});
  check({R"({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2})",
         {"0.001", "1", "1.999"},
         {"0", "0.0", "2", "-1"}});
  check({R"({"type": "number", "minimum": -2, "exclusiveMaximum": 0})",
         {"-2", "-0.5", "-1.75"},
         {"0", "-0", "-0.0", "-2.1"}});
  check({R"({"type": "number", "minimum": -2, "maximum": 3})", {"-2", "-0.5", "0", "2.9", "3"}, {"-2.5", "3.1"}});
}

// Every whole number up to 1100 against every range of a few ends: borders of lengths and of digits.
TEST(Schema, IntegerRangesAreExact) {
  const int64_t ends[] = {-1000, -101, -99, -10, -9, -1, 0, 1, 5, 9, 10, 11, 99, 100, 305, 999, 1000};
  for (const int64_t low : ends) {
    for (const int64_t high : ends) {
      if (low > high) continue;
      const Constraint constraint = compiled(R"({"schema": {"type": "integer", "minimum": )" + std::to_string(low) +
                                             R"(, "maximum": )" + std::to_string(high) + "}}");
      for (int64_t n = -1100; n <= 1100; n += n > -20 && n < 120 ? 1 : 7) {
        ConstraintState state(constraint, bytes_only());
        bool right = true;
        for (const char c : std::to_string(n)) right = right && state.accept(c);
        ASSERT_EQ(right && state.complete(), n >= low && n <= high) << n << " in " << low << " to " << high;
      }
    }
  }
}

TEST(Schema, Objects) {
  const std::string person =
      R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
    "pet": {"type": "null"}}, "required": ["name", "pet"]})";
  check({person,
         {R"({"name": "a", "age": 3, "pet": null})", R"({"name":"a","pet":null})",
          "{\n  \"name\": \"a\",\n  \"pet\": null\n}"},
         {R"({"name": "a"})", R"({"age": 3, "name": "a", "pet": null})", R"({"name": "a", "pet": null, "x": 1})", "{}",
          R"({"name": "a", "pet": null,})", R"({"name" : "a", "pet": null})"}});
  check({R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}})",
         {"{}", R"({"a": 1})", R"({"b": 1})", R"({"c": 1})", R"({"a": 1, "c": 2})", R"({"b": 1, "c": 2})"},
         {R"({"c": 1, "a": 2})", R"({"d": 1})", "{,}"}});
  check({R"({"type": "object", "properties": {}})", {"{}"}, {R"({"a": 1})"}});
  check({R"({"type": "object"})", {"{}", R"({"a": 1, "b": []})"}, {"[]"}});
  check({R"({"type": "object", "additionalProperties": {"type": "integer"}})",
         {"{}", R"({"x": 1, "\n": 2})"},
         {R"({"x": "1"})"}});
  check({R"({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}})",
         {R"({"a": 1, "b": true, "ab": false})", R"({"b": true})", R"({"": true})", R"({"a": 1})"},
         {R"({"a": true})", R"({"b": true, "a": true})", R"({"b": 1})", R"({"\u0061": true})"}});
  check({R"({"type": "object", "required": ["z"]})", {R"({"z": 1})", R"({"z": 1, "y": 2})"}, {"{}"}});
  check({R"({"type": "object", "properties": {"\"q\"": {"const": 1}}})", {R"({"\"q\"": 1})"}, {R"({"q": 1})"}});
  check({R"({"type": "object", "properties": {"a": false, "b": {"type": "null"}}})",
         {R"({"b": null})", "{}"},
         {R"({"a": 1})"}});
}

TEST(Schema, Arrays) {
  check({R"({"type": "array", "items": {"type": "integer"}})",
         {"[]", "[1]", "[1, 2,3]", "[\n  1\n]"},
         {"[\"a\"]", "[1 2]", "[,]", "[1,]"}});
  check({R"({"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 3})",
         {"[null,null]", "[null, null, null]"},
         {"[]", "[null]", "[null,null,null,null]"}});
  check({R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}});
  check({R"({"type": "array", "maxItems": 1})", {"[]", "[{\"a\": 1}]"}, {"[1,2]"}});
  check({R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]})",
         {"[]", "[\"a\"]", "[\"a\", 1]"},
         {"[1]", "[\"a\", 1, 2]"}});
  check(
      {R"({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})",
       {"[\"a\",1]", "[\"a\",1,2]"},
       {"[\"a\"]", "[\"a\",1,2,3]", "[1,1]"}});
  check({R"({"type": "array", "prefixItems": [true, true], "items": false, "minItems": 2})",
         {"[1,2]"},
         {"[1]", "[1,2,3]"}});
}

TEST(Schema, GivenValues) {
  check({R"({"enum": ["red", "green", 3, null, {"a": [1, "x"]}]})",
         {"\"red\"", "\"green\"", "3", "null", R"({"a": [1, "x"]})", R"({"a":[1,"x"]})"},
         {"\"re\"", "\"blue\"", "4"}});
  check({R"({"type": "string", "enum": ["a", 1]})", {"\"a\""}, {"1"}});
  check({R"({"const": "a\"\n\u0001"})", {R"("a\"\n\u0001")"}, {R"("a")"}});
  check({R"({"const": 1.5})", {"1.5"}, {"1"}});
}

TEST(Schema, Combinations) {
  check(
      {R"({"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]})", {"12", "\"a\""}, {"\"ab\"", "null"}});
  check({R"({"oneOf": [{"const": 1}, {"const": 12}]})", {"1", "12"}, {"2"}});
  check({R"({"allOf": [{"type": "integer", "minimum": 3}, {"type": "number", "maximum": 5}]})",
         {"3", "5"},
         {"2", "6", "3.5"}});
  check({R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "null"}, "a": {"minimum": 5}}, "required": ["b"]}]})",
         {R"({"a": 5, "b": null})"},
         {R"({"a": 4, "b": null})", R"({"a": 5})"}});
  check({R"({"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"],
            "anyOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}]})",
         {R"({"k": "x", "a": null})", R"({"k": "x", "b": null})"},
         {R"({"k": "x"})", R"({"a": null})"}});
}

TEST(Schema, References) {
  check({R"({"$defs": {"p": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/p"}})",
         {"[1, 2]"},
         {"[\"a\"]"}});
  check(
      {R"({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"allOf": [{"$ref": "#/definitions/c"}], "title": "t"}, "c": {"const": 1}}})",
       {"1"},
       {"2"}});
  check(
      {R"({"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["v", "next"]})",
       {R"({"v": 1, "next": null})", R"({"v": 1, "next": {"v": 2, "next": null}})"},
       {R"({"v": 1})", R"({"v": 1, "next": 3})"}});
  check({R"({"$ref": "#/$defs/p", "maximum": 3, "$defs": {"p": {"type": "integer", "minimum": 2}}})",
         {"2", "3"},
         {"1", "4"}});
}

TEST(Schema, WhatRestrictsAndIsNotSupportedIsRefusedByItsPlace) {
  const auto of = [](const std::string& schema) { return refusal(R"({"schema": )" + schema + "}"); };
  EXPECT_EQ(of(R"({"properties": {"a": {"not": {}}}})"), "schema: properties.a.not is not supported");
  EXPECT_EQ(of(R"({"anyOf": [{}, {"items": {"multipleOf": 3}}]})"),
            "schema: anyOf[1].items.multipleOf is not supported");
  for (const char* keyword : {R"("if": {})", R"("patternProperties": {})", R"("propertyNames": {})",
                              R"("contains": {})", R"("dependentRequired": {})", R"("uniqueItems": true)",
                              R"("unevaluatedProperties": false)", R"("$dynamicRef": "#a")", R"("minProperties": 1)",
                              R"("maxProperties": 1)", R"("format": "colour")", R"("made_up": 1)"}) {
    EXPECT_NE(of("{" + std::string(keyword) + "}"), "") << keyword;
  }
  for (const char* schema :
       {R"({"type": "text"})",
        R"({"type": []})",
        R"({"type": 3})",
        R"({"enum": 3})",
        R"({"enum": []})",
        R"({"anyOf": []})",
        R"({"anyOf": {}})",
        R"({"allOf": 3})",
        R"({"properties": []})",
        R"({"required": "a"})",
        R"({"required": [1]})",
        R"({"minLength": -1})",
        R"({"minLength": 1.5})",
        R"({"minLength": 5, "maxLength": 4})",
        R"({"minItems": 2, "maxItems": 1})",
        R"({"minimum": 3, "maximum": 2})",
        R"({"type": "number", "minimum": 0.5})",
        R"({"minimum": "a"})",
        R"({"exclusiveMinimum": true})",
        R"({"minimum": 1e30})",
        R"({"$ref": "#/nowhere"})",
        R"({"$ref": "http://example.org/x"})",
        R"({"$ref": "#anchor"})",
        R"({"pattern": "a**"})",
        R"({"pattern": "(a"})",
        R"-({"pattern": "a)"})-",
        R"({"pattern": "["})",
        R"-({"pattern": "(?=a)"})-",
        R"-({"pattern": "(a)\\1"})-",
        R"({"pattern": "\\bA"})",
        R"({"pattern": "a^"})",
        R"({"pattern": "$a"})",
        R"({"pattern": "a{2,1}"})",
        R"({"pattern": "[b-a]"})",
        R"({"pattern": "\\"})",
        R"({"pattern": "\\ud800"})",
        R"({"pattern": "{"})",
        "false",
        "3",
        R"({"pattern": "a", "format": "date"})",
        R"({"enum": ["a"], "minLength": 3})",
        R"({"required": ["a"], "additionalProperties": false})",
        R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})",
        R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]})",
        R"({"type": "object", "properties": {"a": false}, "required": ["a"]})"}) {
    EXPECT_NE(of(schema), "") << schema;
  }
}

// ---- hostile documents ---------------------------------------------------------------------------------------------

TEST(Schema, WhatNeverEndsIsRefused) {
  for (const char* schema :
       {R"({"$ref": "#"})", R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", R"({"allOf": [{"$ref": "#"}]})",
        R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})",
        R"({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]})",
        R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})",
        R"({"$defs": {"n": {"properties": {"x": {"$ref": "#/$defs/n", "minProperties": 0}}}}, "$ref": "#/$defs/n"})",
        R"({"$ref": "#/$defs/a", "maxLength": 3, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}})"}) {
    EXPECT_NE(refusal(R"({"schema": )" + std::string(schema) + "}"), "") << schema;
  }
}

TEST(Schema, HugeDocumentsAreRefusedSoon) {
  std::string many = R"({"schema": {"anyOf": [)";
  for (int i = 0; i < 2000; ++i)
    many += (i ? "," : "") + std::string(R"({"type":"array","items":{"const":)") + std::to_string(i) + "}}";
  EXPECT_NE(refusal(many + "]}}").find("alternatives"), std::string::npos);
  std::string values = R"({"schema": {"enum": [)";
  for (int i = 0; i < 200'000; ++i) values += (i ? ",\"" : "\"") + std::to_string(i * 7919) + "\"";
  EXPECT_NE(refusal(values + "]}}").find("too large"), std::string::npos);
  std::string optional = R"({"schema": {"type": "object", "properties": {)";
  for (int i = 0; i < 3000; ++i) optional += (i ? ",\"p" : "\"p") + std::to_string(i) + R"(": {"type": "null"})";
  EXPECT_NE(refusal(optional + "}}}"), "");
  for (const char* pattern :
       {"^((a{1000}){1000}){1000}$", "(x+x+)+y{9999}z{9999}", "^(.*a.{30}){9}$", "((((((a|b)*)*)*)*)*)*c{5000}d{5001}"})
    EXPECT_NE(refusal(R"({"schema": {"pattern": ")" + std::string(pattern) + "\"}}"), "") << pattern;
  EXPECT_NE(refusal(R"({"schema": {"pattern": "^[a-z]*$", "maxLength": 100000000}})"), "");
  // Doubling: each definition holds the next one twice.
  std::string doubling = R"({"schema": {"$ref": "#/$defs/d0", "title": "t", "minItems": 0, "$defs": {)";
  for (int i = 0; i < 30; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
    doubling += "\"d" + std::to_string(i) + R"(": {"allOf": [)" + next + "," + next + "]},";
  }
  EXPECT_NE(refusal(doubling + R"("d30": {"type": "array"}}}})"), "");
}

TEST(Schema, ManyEnumValuesAndPropertiesAreFine) {
  std::string document = R"({"schema": {"type": "object", "properties": {)";
  std::string names;
  for (int i = 0; i < 400; ++i) {
    const std::string name = "\"property" + std::to_string(i) + "\"";
    document += (i ? "," : "") + name + R"(: {"type": "null"})";
    names += (i ? "," : "") + name;
  }
  document += R"(, "kind": {"enum": [)" + names + R"(]}}, "required": [)" + names + "]}}";
  ConstraintState state(compiled(document), bytes_only());
  EXPECT_TRUE(state.accept('{'));
}

TEST(Constraint, NestingIsBoundedAndStillEnds) {
  ConstraintState state(compiled(R"({"json": true})"), bytes_only());
  int depth = 0;
  while (depth < 1000 && state.accept('[')) ++depth;
  EXPECT_EQ(depth, 64);
  for (int i = 0; i < depth; ++i) {
    EXPECT_TRUE(state.accept(']'));
  }
  EXPECT_TRUE(state.complete());
}

// Items that themselves must hold something may not be begun where there is no room for it.
TEST(Constraint, TheLastLevelsAreKeptForWhatMustFollow) {
  ConstraintState state(compiled(R"({"schema": {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array",
      "items": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}]}, "minItems": 1}}}})"),
                        bytes_only());
  int depth = 0;
  while (depth < 1000 && state.accept('[')) ++depth;
  EXPECT_EQ(depth, 62);
  for (const char c : std::string_view("{\"a\":[]}")) ASSERT_TRUE(state.accept(c)) << c;
}

TEST(Constraint, BlankSpaceEnds) {
  ConstraintState state(compiled(R"({"json_object": true})"), bytes_only());
  ASSERT_TRUE(state.accept('{'));
  int blanks = 0;
  for (bool more = state.accept('\n'); more && blanks < 1000; more = state.accept(' ')) ++blanks;
  EXPECT_EQ(blanks, 129);
  EXPECT_FALSE(state.accept('\n'));
  EXPECT_TRUE(state.accept('"'));
}

// ---- the language --------------------------------------------------------------------------------------------------

TEST(Constraint, LanguageOfTexts) {
  const auto right = [](const char* document, std::string_view text) { return accepts(compiled(document), text); };
  EXPECT_TRUE(right(R"({"literal": "abc"})", "abc"));
  EXPECT_FALSE(right(R"({"literal": "abc"})", "ab"));
  EXPECT_TRUE(right(
      R"({"sequence": [{"literal": "a"}, {"optional": {"literal": "b"}}, {"choice": [{"literal": "c"}, {"literal": "cd"}]}]})",
      "acd"));
  EXPECT_TRUE(right(
      R"({"sequence": [{"literal": "a"}, {"optional": {"literal": "b"}}, {"choice": [{"literal": "c"}, {"literal": "cd"}]}]})",
      "abc"));
  const char* calls =
      R"({"repeat": {"sequence": [{"literal": "<"}, {"json_object": true}, {"literal": ">"}]}, "min": 1, "max": 2, "separator": "; "})";
  EXPECT_TRUE(right(calls, "<{}>"));
  EXPECT_TRUE(right(calls, "<{}>; <{\"a\": 1}>"));
  EXPECT_FALSE(right(calls, ""));
  EXPECT_FALSE(right(calls, "<{}>; "));
  EXPECT_FALSE(right(calls, "<{}>; <{}>; <{}>"));
  EXPECT_TRUE(right(R"({"repeat": {"literal": "x"}, "max": null})", "xxxxxxx"));
  EXPECT_TRUE(right(R"({"repeat": {"literal": "x"}})", ""));
  EXPECT_FALSE(right(R"({"repeat": {"literal": "x"}, "min": 3})", "xx"));
  EXPECT_TRUE(right(R"({"text": true})", ""));
  EXPECT_TRUE(right(R"({"text": true})", "any \"text\"\n\xE2\x82\xAC"));
  EXPECT_FALSE(right(R"({"text": true})", "\xE2\x82"));
}

TEST(Constraint, UntilEndsAtTheFirstOccurrence) {
  const Constraint constraint = compiled(R"({"sequence": [{"until": "aab"}, {"literal": "!"}]})");
  EXPECT_TRUE(accepts(constraint, "aab!"));
  EXPECT_TRUE(accepts(constraint, "xaaaab!"));
  EXPECT_TRUE(accepts(constraint, "\xC3\xA9 ab aab!"));
  EXPECT_EQ(reading(constraint, "aab aab!"), 3);
  EXPECT_EQ(reading(constraint,
                    "\xC3"
                    "aab!"),
            1);
  EXPECT_TRUE(accepts(compiled(R"({"until": "\u20ac"})"), "a\xE2\x82\xAD\xE2\x82\xAC"));
}

TEST(Constraint, SpecialTokensAreLiteralsByThemselvesAndNothingElse) {
  const auto& texts = bytes_only();
  const TokenId call = texts.special("<call>");
  ASSERT_GE(call, 0);
  ConstraintState literal(compiled(R"({"sequence": [{"literal": "<call>"}, {"json_object": true}]})"), texts);
  EXPECT_EQ(literal.allowed().count(), 1);
  EXPECT_FALSE(literal.accept('<'));
  EXPECT_TRUE(literal.accept(call));
  EXPECT_FALSE(literal.allowed().test(call));
  ConstraintState until(compiled(R"({"sequence": [{"until": "<call>"}, {"literal": "."}]})"), texts);
  ASSERT_TRUE(until.accept('x'));
  EXPECT_TRUE(until.allowed().test(call));
  EXPECT_TRUE(until.accept(call));
  EXPECT_TRUE(until.accept('.'));
  EXPECT_TRUE(until.must_end());
  ConstraintState text(compiled(R"({"text": true})"), texts);
  EXPECT_FALSE(text.allowed().test(call));
}

TEST(Constraint, EndIsAllowedExactlyWhenTheAnswerIsWhole) {
  ConstraintState state(compiled(R"({"choice": [{"literal": "a"}, {"literal": "ab"}]})"), bytes_only());
  EXPECT_FALSE(state.allowed().test(kEnd));
  EXPECT_FALSE(state.accept(kEnd));
  ASSERT_TRUE(state.accept('a'));
  EXPECT_TRUE(state.complete());
  EXPECT_FALSE(state.must_end());
  EXPECT_EQ(state.allowed().count(), 2);
  ASSERT_TRUE(state.accept('b'));
  EXPECT_TRUE(state.must_end());
  EXPECT_EQ(state.allowed().count(), 1);
  EXPECT_TRUE(state.accept(kEnd));
  EXPECT_EQ(state.allowed().count(), 0);
}

TEST(Constraint, MistakesInTheLanguageNameTheirPlace) {
  EXPECT_EQ(refusal(R"({"sequence": [{"literal": "a"}, {"choice": [{"json": 1}]}]})"),
            "sequence[1].choice[0].json must be true");
  for (const char* document :
       {"3", "{}", R"({"json": true, "text": true})", R"({"literal": 3})", R"({"until": ""})", R"({"choice": []})",
        R"({"sequence": {}})", R"({"repeat": {"text": true}})", R"({"repeat": {"optional": {"literal": "a"}}})",
        R"({"repeat": {"literal": "a"}, "min": 3, "max": 2})", R"({"literal": "a", "min": 1})",
        R"({"repeat": {"literal": "a"}, "min": -1})", R"({"unknown": 1})", "{", ""})
    EXPECT_NE(refusal(document), "") << document;
}

TEST(Constraint, ATokenizerThatCannotSpellEverythingIsRefused) {
  std::vector<TokenTexts::Token> tokens = byte_vocabulary();
  tokens['x'].bytes = "xy";
  const TokenId ends[] = {kEnd};
  const auto constraint = Constraint::parse(R"({"json": true})", TokenTexts::build(tokens, ends));
  ASSERT_FALSE(constraint.ok());
  EXPECT_EQ(constraint.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(constraint.error().message.find("0x78"), std::string::npos);
}

// ---- masks and walks -----------------------------------------------------------------------------------------------

const char* const kWalked[] = {
    R"({"json": true})",
    R"({"json_object": true})",
    R"({"schema": {"type": "object", "properties": {"s": {"type": "string"}, "t": {"type": "string", "minLength": 1, "maxLength": 5},
        "n": {"type": "number"}, "i": {"type": "integer", "minimum": -12, "maximum": 130}, "p": {"type": "string", "pattern": "^[a-z\"]+$"},
        "d": {"type": "string", "format": "date-time"}, "e": {"enum": ["a", "ab", 1, {"x": null}]}}, "required": ["s", "i"]}})",
    R"({"schema": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "string", "maxLength": 2}, {"type": "boolean"}]}, "minItems": 1, "maxItems": 4}})",
    R"({"schema": {"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["v"]}}}})",
    R"({"sequence": [{"until": ":"}, {"json": true}]})",
    R"({"schema": {"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "number", "minimum": 0}}})",
};

// The definition of a mask: the tokens that a copy of the state accepts.
TEST(Constraint, MasksAreWhatIsAccepted) {
  std::vector<const char*> documents(std::begin(kWalked), std::end(kWalked));
  documents.push_back(R"({"sequence": [{"until": "\u00e9a"}, {"json": true}]})");
  documents.push_back(R"({"sequence": [{"until": "aab"}, {"json": true}]})");
  documents.push_back(R"({"sequence": [{"until": "<call>"}, {"text": true}]})");
  for (const TokenTexts* texts : {&bytes_only(), &real_vocabulary()}) {
    for (const char* document : documents) {
      const Constraint constraint = compiled(document, *texts);
      std::mt19937 random(7);
      std::vector<TokenId> path;
      ConstraintState state(constraint, *texts);
      for (int step = 0; step < 25 && !state.must_end(); ++step) {
        const TokenMask& mask = state.allowed();
        std::vector<TokenId> choices;
        mask.for_each([&](TokenId id) { choices.push_back(id); });
        ASSERT_FALSE(choices.empty());
        if (step % 6 == 0) {
          for (TokenId id = 0; id < texts->vocab_size(); ++id) {
            if (id % 5 != step % 5 && texts->vocab_size() > 1000) continue;
            ConstraintState copy(constraint, *texts);
            for (const TokenId before : path) ASSERT_TRUE(copy.accept(before));
            ASSERT_EQ(copy.accept(id), mask.test(id)) << document << " token " << texts->bytes(id);
          }
        }
        std::erase_if(choices, [&](TokenId id) { return texts->is_end(id); });
        path.push_back(choices[random() % choices.size()]);
        ASSERT_TRUE(state.accept(path.back()));
      }
    }
  }
}

// Chooses among allowed tokens at random, soon in favour of those that close something, until the end is chosen.
std::string walk(const Constraint& constraint, const TokenTexts& texts, uint32_t seed) {
  ConstraintState state(constraint, texts);
  std::mt19937 random(seed);
  std::string text;
  for (int step = 0; step < 4000; ++step) {
    std::vector<TokenId> choices, closing;
    state.allowed().for_each([&](TokenId id) {
      choices.push_back(id);
      const std::string_view bytes = texts.bytes(id);
      if (bytes.empty() || bytes == "\"" || bytes == "}" || bytes == "]" || bytes == ":") closing.push_back(id);
    });
    EXPECT_FALSE(choices.empty()) << "a dead end behind " << text;
    if (choices.empty()) return text;
    const bool close = !closing.empty() && random() % 40 < static_cast<uint32_t>(step);
    const std::vector<TokenId>& from = close ? closing : choices;
    const TokenId id = from[random() % from.size()];
    EXPECT_TRUE(state.accept(id));
    if (texts.is_end(id)) return text;
    text += texts.bytes(id);
  }
  ADD_FAILURE() << "no end: " << text.substr(0, 300);
  return text;
}

TEST(Constraint, RandomWalksEndInJsonThatSatisfiesTheSchema) {
  for (const TokenTexts* texts : {&bytes_only(), &real_vocabulary()}) {
    for (const char* document : kWalked) {
      const Json parsed = *parse_json(document);
      const Constraint constraint = compiled(document, *texts);
      for (uint32_t seed = 0; seed < 12; ++seed) {
        std::string text = walk(constraint, *texts, seed);
        if (const Json* parts = parsed.find("sequence")) {
          const std::string& until = parts->as_array()[0].find("until")->as_string();
          text = text.substr(text.find(until) + until.size());
        }
        const std::optional<Json> value = read_json(text);
        ASSERT_TRUE(value) << text;
        const Json* schema = parsed.find("schema");
        EXPECT_TRUE(!schema || satisfies(*value, *schema, *schema)) << document << "\n" << text;
        EXPECT_TRUE(!parsed.find("json_object") || value->is_object());
      }
    }
  }
}

TEST(Constraint, OtherTokensOfTheSameTextAreTheSame) {
  const auto& texts = bytes_only();
  const Constraint constraint = compiled(kWalked[2]);
  const std::string text = R"({"s": "é\n\"x", "t": "€", "i": 12, "e": {"x": null}})";
  ASSERT_TRUE(accepts(constraint, text));
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    ConstraintState state(constraint, texts);
    for (size_t at = 0; at < text.size();) {
      std::vector<TokenId> fitting;
      for (TokenId id = 0; id < texts.vocab_size(); ++id)
        if (!texts.bytes(id).empty() && text.compare(at, texts.bytes(id).size(), texts.bytes(id)) == 0)
          fitting.push_back(id);
      const TokenId id = fitting[random() % fitting.size()];
      ASSERT_TRUE(state.allowed().test(id)) << text.substr(at);
      ASSERT_TRUE(state.accept(id));
      at += texts.bytes(id).size();
    }
    EXPECT_TRUE(state.must_end());
  }
}

// Frames that are needed no more are dropped on the way; ambiguous texts are followed in a bounded number of ways.
TEST(Constraint, LongAndAmbiguousAnswersStayBounded) {
  ConstraintState state(
      compiled(
          R"({"schema": {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "array"}, {"type": "integer"}]}}})"),
      bytes_only());
  ASSERT_TRUE(state.accept('['));
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "[[1],[]], ";
  text += "[[[[[[[[[[[[]]]]]]]]]]]]]";
  for (const char c : text) {
    if (!state.accept(c)) FAIL() << c;
  }
  EXPECT_TRUE(state.must_end());
}

}  // namespace
}  // namespace colibri::sampling
