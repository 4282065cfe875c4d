// What is asked of the answers of chat models is of the language that the sampler understands.
#include <gtest/gtest.h>

#include "sampling/constraint.h"
#include "text/answer_constraint.h"

namespace colibri::sampling {
namespace {

constexpr const char* kRequest = R"({"tools": [
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties":
    {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"type": "string", "enum": ["C", "F"]},
     "exact": {"type": "boolean"}}, "required": ["city"]}}},
  {"type": "function", "function": {"name": "ping"}}],
  "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}, "tool_choice": ")";

TEST(AnswerConstraints, OfEveryFormatCompile) {
  const auto special = [](std::string_view marker) { return marker.starts_with("<|"); };
  for (const char* form : {"hermes",
                           "qwen_xml",
                           "seed",
                           "harmony",
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
    text::AnswerFormat format;
    format.calls = {text::find_call_form(form)};
    if (!format.harmony()) format.reasoning = text::find_reasoning_form("think");
    for (const char* choice : {"required", "auto"}) {
      const Json request = parse_json(std::string(kRequest) + choice + "\"}").value();
      const auto wanted = text::parse_answer_request(request);
      ASSERT_TRUE(wanted.ok()) << wanted.error().message;
      for (const char* prompt : {"", "<think>\n", "<think>\n\n</think>\n\n"}) {
        const auto json = text::answer_constraint(format, *wanted, prompt, special);
        ASSERT_TRUE(json.ok()) << form << ": " << json.error().message;
        const auto compiled = Constraint::compile(*json);
        EXPECT_TRUE(compiled.ok()) << form << ", " << choice << ": " << compiled.error().message << "\n"
                                   << json->dump();
      }
    }
  }
}

}  // namespace
}  // namespace colibri::sampling
