// What requests say about their answers, and the constraints that follow from it for each format.
#include "text/answer_constraint.h"

#include <gtest/gtest.h>

namespace colibri::text {
namespace {

constexpr const char* kTools = R"("tools": [
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties":
    {"days": {"type": "integer"}, "city": {"type": "string"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "ping"}}])";
constexpr const char* kWeather = R"({"type": "object", "properties": {"days": {"type": "integer"}, )"
                                 R"("city": {"type": "string"}}, "required": ["city"]})";
const std::string kNamed = R"("tool_choice": {"type": "function", "function": {"name": "weather"}})";

std::string request(const std::string& members) { return "{" + members + "}"; }

Result<AnswerRequest> parsed(const std::string& members) {
  return parse_answer_request(parse_json(request(members)).value());
}

AnswerFormat format(const char* calls, const char* reasoning = nullptr) {
  AnswerFormat format;
  if (calls != nullptr) format.calls = {find_call_form(calls)};
  if (reasoning != nullptr) format.reasoning = find_reasoning_form(reasoning);
  return format;
}

std::string constraint(const AnswerFormat& format, const std::string& members, std::string_view prompt = "") {
  const auto wanted = parsed(members);
  if (!wanted.ok()) return wanted.error().message;
  const auto json = answer_constraint(format, *wanted, prompt, nullptr);
  if (!json.ok()) return json.error().message;
  return json->is_null() ? "free" : json->dump();
}

TEST(AnswerRequest, WhatMakesNoSenseIsRefusedByTheNameOfItsMember) {
  const auto message = [](const std::string& members) {
    const auto result = parsed(members);
    return result.ok() ? "accepted" : result.error().message;
  };
  EXPECT_EQ(message(R"("tools": 3)"), "tools must be a list");
  EXPECT_EQ(message(R"("tools": [{"type": "function"}])"), "tools[0] has no function with a name");
  EXPECT_EQ(message(R"("tool_choice": "required")"), "tool_choice is required, but there are no tools");
  EXPECT_EQ(message(R"("tool_choice": "always")"), "tool_choice must be none, auto, required, or name a function");
  EXPECT_EQ(message(std::string(kTools) + R"(, "tool_choice": {"type": "function", "function": {"name": "x"}})"),
            "tool_choice names \"x\", which is not among the tools: weather, ping");
  EXPECT_EQ(message(R"("parallel_tool_calls": 1)"), "parallel_tool_calls must be true or false");
  EXPECT_EQ(message(R"("response_format": {"type": "xml"})"),
            "response_format.type must be text, json_object or json_schema");
  EXPECT_EQ(message(R"("response_format": {"type": "json_schema"})"), "response_format.json_schema has no schema");
  EXPECT_EQ(message(R"("tools": null, "tool_choice": null, "response_format": null)"), "accepted");
  EXPECT_FALSE(parse_answer_request(Json(3)).ok());
}

TEST(AnswerRequest, OptionsForTheReaderFollowFromIt) {
  const auto options = [](const std::string& members) { return parsed(members)->options("s", "p"); };
  EXPECT_FALSE(options("").calls);
  EXPECT_TRUE(options(kTools).calls);
  EXPECT_FALSE(options(std::string(kTools) + R"(, "tool_choice": "none")").calls);
  EXPECT_EQ(options(std::string(kTools) + R"(, "parallel_tool_calls": false)").max_calls, 1);
  EXPECT_EQ(options(std::string(kTools) + ", " + kNamed).tools.size(), 1U);
}

TEST(AnswerConstraint, IsFreeUnlessJsonOrACallIsWanted) {
  EXPECT_EQ(constraint(format("hermes"), kTools), "free");
  EXPECT_EQ(constraint(format("hermes"), std::string(kTools) + R"(, "tool_choice": "none")"), "free");
  EXPECT_EQ(constraint(format("hermes"), R"("response_format": {"type": "text"})"), "free");
}

TEST(AnswerConstraint, JsonComesBehindTheReasoning) {
  const std::string json = R"("response_format": {"type": "json_object"})";
  EXPECT_EQ(constraint(format(nullptr), json), R"({"json_object": true})");
  EXPECT_EQ(constraint(format(nullptr, "think"), json, "<think>\n"),
            R"({"sequence": [{"until": "</think>"}, {"optional": {"literal": "\n\n"}}, {"json_object": true}]})");
  EXPECT_EQ(constraint(format(nullptr, "think"), json, "<think>\n\n</think>\n\n"), R"({"json_object": true})");
  EXPECT_EQ(constraint(format(nullptr, "think"), json, "assistant\n"),
            R"({"sequence": [{"optional": {"sequence": [{"literal": "<think>"}, {"until": "</think>"}, )"
            R"({"optional": {"literal": "\n\n"}}]}}, {"json_object": true}]})");
  EXPECT_EQ(
      constraint(format(nullptr), R"("response_format": {"type": "json_schema", "json_schema": {"schema": {"a": 1}}})"),
      R"({"schema": {"a": 1}})");
}

TEST(AnswerConstraint, ACallMayStandInsteadOfTheJson) {
  EXPECT_EQ(
      constraint(format("function"), std::string(kTools) + R"(, "response_format": {"type": "json_object"})"),
      std::string(R"({"choice": [{"repeat": {"choice": [{"sequence": [{"literal": "<function=weather>"}, )") +
          R"({"schema": )" + kWeather + R"(}, {"literal": "</function>"}]}, {"sequence": )" +
          R"([{"literal": "<function=ping>"}, {"json_object": true}, {"literal": "</function>"}]}]}, "min": 1, )" +
          R"("max": 32}, {"json_object": true}]})");
}

TEST(AnswerConstraint, ANamedFunctionIsForcedInEveryForm) {
  const std::string members = std::string(kTools) + ", " + kNamed;
  const std::string schema = std::string(R"({"schema": )") + kWeather + "}";
  EXPECT_EQ(constraint(format("hermes"), members),
            R"({"sequence": [{"literal": "<tool_call>\n{\"name\": \"weather\", \"arguments\": "}, )" + schema +
                R"(, {"literal": "}\n</tool_call>"}]})");
  EXPECT_EQ(constraint(format("mistral_list"), members),
            R"({"sequence": [{"literal": "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": "}, )" + schema +
                R"(, {"literal": "}]"}]})");
  EXPECT_EQ(constraint(format("kimi_k2"), members),
            R"({"sequence": [{"literal": "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0)"
            R"(<|tool_call_argument_begin|>"}, )" +
                schema + R"(, {"literal": "<|tool_call_end|><|tool_calls_section_end|>"}]})");
  EXPECT_EQ(constraint(format("llama_json"), members),
            R"({"sequence": [{"literal": "{\"name\": \"weather\", \"parameters\": "}, )" + schema +
                R"(, {"literal": "}"}]})");
  EXPECT_EQ(constraint(format("qwen_xml"), members),
            R"({"sequence": [{"literal": "<tool_call>\n<function=weather>\n<parameter=city>\n"}, )"
            R"({"until": "\n</parameter>\n"}, {"optional": {"sequence": [{"literal": "<parameter=days>\n"}, )"
            R"({"schema": {"type": "integer"}}, {"literal": "\n</parameter>\n"}]}}, )"
            R"({"literal": "</function>\n</tool_call>"}]})");
  EXPECT_EQ(constraint(format("dsml_v4"), members),
            R"({"sequence": [{"literal": "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n)"
            R"(<｜DSML｜parameter name=\"city\" string=\"true\">"}, {"until": "</｜DSML｜parameter>\n"}, )"
            R"({"optional": {"sequence": [{"literal": "<｜DSML｜parameter name=\"days\" string=\"false\">"}, )"
            R"({"schema": {"type": "integer"}}, {"literal": "</｜DSML｜parameter>\n"}]}}, )"
            R"({"literal": "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"}]})");
  EXPECT_EQ(constraint(format("gemma"), members),
            R"({"sequence": [{"literal": "<|tool_call>call:weather{city:<|\"|>"}, {"until": "<|\"|>"}, )"
            R"({"optional": {"sequence": [{"literal": ",days:"}, {"schema": {"type": "integer"}}]}}, )"
            R"({"literal": "}<tool_call|>"}]})");
  EXPECT_EQ(constraint(format("lfm2"), members),
            R"({"sequence": [{"literal": "<|tool_call_start|>[weather(city="}, {"schema": {"type": "string"}}, )"
            R"({"optional": {"sequence": [{"literal": ", days="}, {"schema": {"type": "integer"}}]}}, )"
            R"({"literal": ")]<|tool_call_end|>"}]})");
  EXPECT_EQ(constraint(format("harmony"), members),
            R"({"sequence": [{"optional": {"sequence": [{"literal": "<|channel|>analysis<|message|>"}, )"
            R"({"until": "<|end|>"}, {"literal": "<|start|>assistant"}]}}, )"
            R"({"literal": "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"}, )" +
                schema + "]}");
}

TEST(AnswerConstraint, SeveralCallsAreNumberedWhereTheFormNumbersThem) {
  const std::string text = constraint(format("kimi_k2"), std::string(kTools) + R"(, "tool_choice": "required")");
  EXPECT_NE(text.find("functions.ping:0"), std::string::npos);
  EXPECT_NE(text.find("functions.ping:7"), std::string::npos);
  const std::string one = constraint(
      format("kimi_k2"), std::string(kTools) + R"(, "tool_choice": "required", "parallel_tool_calls": false)");
  EXPECT_NE(one.find("functions.ping:0"), std::string::npos);
  EXPECT_EQ(one.find("functions.ping:1"), std::string::npos);
}

TEST(AnswerConstraint, EnumerationsAndDefinitionsOfTheSchemaAreKept) {
  const std::string members = R"("tools": [{"function": {"name": "f", "parameters": {"properties":
    {"unit": {"enum": ["C", "F"]}, "x": {"$ref": "#/$defs/X"}}, "required": ["unit", "x"], "$defs": {"X": {"type": "object"}}}}}],
    "tool_choice": "required", "parallel_tool_calls": false)";
  const std::string text = constraint(format("glm"), members);
  EXPECT_NE(text.find(R"({"choice": [{"literal": "C"}, {"literal": "F"}]})"), std::string::npos) << text;
}

TEST(AnswerConstraint, WhatAFormatCannotSayIsRefused) {
  const std::string members = std::string(kTools) + R"(, "tool_choice": "required")";
  EXPECT_EQ(constraint(format(nullptr), members).find("tool_choice: "), 0U);
  EXPECT_EQ(
      constraint(format("gemma"), R"("tools": [{"name": "f", "parameters": {"properties": {"l": {"type": "array"}},
    "required": ["l"]}}], "tool_choice": "required")")
          .find("tool_choice: "),
      0U);
}

// Literals that are special tokens are read as tokens only when they stand alone.
TEST(AnswerConstraint, SpecialTokensStandApart) {
  const auto special = [](std::string_view marker) { return marker.starts_with("<|") || marker == "｜DSML｜"; };
  const auto text = [&](const char* form, const char* reasoning) {
    const auto wanted = parsed(R"("tools": [{"name": "f", "parameters": {"properties": {"s": {"type": "string"}},
      "required": ["s"]}}], "tool_choice": "required", "parallel_tool_calls": false)");
    return answer_constraint(format(form, reasoning), *wanted, "", special)->dump();
  };
  EXPECT_EQ(
      text("dsml_v4", nullptr),
      R"({"sequence": [{"literal": "<"}, {"literal": "｜DSML｜"}, {"literal": "tool_calls>\n<"}, {"literal": "｜DSML｜"}, )"
      R"({"literal": "invoke name=\"f\">\n<"}, {"literal": "｜DSML｜"}, {"literal": "parameter name=\"s\" string=\"true\">"}, )"
      R"({"until": "</"}, {"literal": "｜DSML｜"}, {"literal": "parameter>\n"}, {"literal": "</"}, {"literal": "｜DSML｜"}, )"
      R"({"literal": "invoke>\n</"}, {"literal": "｜DSML｜"}, {"literal": "tool_calls>"}]})");
  const std::string harmony = text("harmony", nullptr);
  EXPECT_EQ(
      harmony.find(
          R"({"sequence": [{"optional": {"sequence": [{"literal": "<|channel|>"}, {"literal": "analysis"}, )"
          R"({"literal": "<|message|>"}, {"until": "<|end|>"}, {"literal": "<|start|>"}, {"literal": "assistant"}]}}, )"),
      0U)
      << harmony;
  EXPECT_NE(
      text("kimi_k2", "think").find(R"({"literal": "functions.f:0"}, {"literal": "<|tool_call_argument_begin|>"})"),
      std::string::npos);
}

// What is forced is read as a call: the frame that is written is the one that is looked for.
TEST(AnswerConstraint, AForcedCallIsReadAsOne) {
  for (const char* name : {"hermes",
                           "qwen_xml",
                           "seed",
                           "deepseek_v3",
                           "deepseek_v31",
                           "dsml_v32",
                           "dsml_v4",
                           "glm",
                           "glm_47",
                           "hy3",
                           "gemma",
                           "mistral_list",
                           "mistral",
                           "mistral_id",
                           "kimi_k2",
                           "kimi_k3",
                           "minimax_m2",
                           "lfm2",
                           "granite_list",
                           "toolcall_list",
                           "tool_calls_list",
                           "tool_calls_lines",
                           "functools_list",
                           "cohere",
                           "apertus",
                           "gigachat",
                           "solar",
                           "function",
                           "function_param",
                           "llama_tag",
                           "llama_start",
                           "llama_json",
                           "llama_python",
                           "python"}) {
    const std::string members =
        R"("tools": [{"name": "ping"}], "tool_choice": "required", "parallel_tool_calls": false)";
    const auto wanted = parsed(members);
    const AnswerFormat one = format(name);
    const Json json = answer_constraint(one, *wanted, "", nullptr).value();
    std::string text;
    const Json* items = json.find("sequence");
    for (const Json& item : items != nullptr ? items->as_array() : Json::Array{json})
      text += item.find("literal") != nullptr ? item.find("literal")->as_string() : "{}";
    AnswerReader reader(one, wanted->options("s", ""));
    AnswerDeltas deltas;
    reader.push(text, deltas);
    reader.finish(deltas);
    ASSERT_EQ(deltas.size(), 2U) << name << ": " << text;
    EXPECT_EQ(deltas[0].name, "ping") << name;
    EXPECT_EQ(deltas[1].text, "{}") << name;
    EXPECT_EQ(reader.calls_closed(), 1) << name;
  }
}

}  // namespace
}  // namespace colibri::text
