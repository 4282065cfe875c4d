// The readers of request bodies: what is accepted, and which member is blamed for what is not.
#include <gtest/gtest.h>

#include <cmath>

#include "chat_request.h"
#include "completion_request.h"
#include "messages_request.h"
#include "prepare.h"
#include "responses_request.h"

namespace colibri::server {
namespace {

json::value parsed(const std::string& text) {
  json::value body;
  const auto error = parse_body(text, body);
  EXPECT_FALSE(error.has_value()) << text << ": " << error->message;
  return body;
}

// A chat with one message and these members.
std::string chat_with(const std::string& members) {
  return R"({"messages": [{"role": "user", "content": "Hi"}])" + (members.empty() ? "}" : ", " + members + "}");
}

std::optional<ApiError> chat_error(const std::string& text) {
  ChatRequest request;
  return read_chat_request(parsed(text), request);
}

ChatRequest chat(const std::string& text) {
  ChatRequest request;
  const auto error = read_chat_request(parsed(text), request);
  EXPECT_FALSE(error.has_value()) << text << ": " << error->message;
  return request;
}

void expect_blamed(const std::string& text, const std::string& param) {
  const auto error = chat_error(text);
  ASSERT_TRUE(error.has_value()) << text;
  EXPECT_EQ(400, error->status) << text;
  EXPECT_EQ(param, error->param) << text << ": " << error->message;
  EXPECT_NE(std::string::npos, error->message.find(param)) << error->message;
}

TEST(RequestBody, WhatIsNoJsonIsRefusedWithItsPlace) {
  for (const char* text : {"", "{", "{\"a\": 1, \"a\": 2}", "{\"a\": NaN}", "[1,]", "{\"a\": \"\\ud800\"}",
                           "{\"a\": \"\xff\"}", "{\"a\": 1} x", "{\"a\": 01}"}) {
    json::value body;
    const auto error = parse_body(text, body);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(400, error->status);
    EXPECT_EQ("invalid_json", error->code);
    EXPECT_NE(std::string::npos, error->message.find("line 1 column ")) << error->message;
  }
}

TEST(RequestBody, DepthIsBounded) {
  json::value body;
  EXPECT_TRUE(parse_body(std::string(3000, '[') + std::string(3000, ']'), body).has_value());
  EXPECT_FALSE(parse_body(std::string(60, '[') + std::string(60, ']'), body).has_value());
}

TEST(ChatRequestBody, NumbersOutsideTheirRangeAreBlamedByName) {
  for (const char* value : {"-0.1", "2.1", "1e999", "-1e999", "9223372036854775808", "\"1\"", "[]", "true"})
    expect_blamed(chat_with("\"temperature\": " + std::string(value)), "temperature");
  for (const char* value : {"0", "129", "1.5", "9223372036854775808", "-1", "1e999", "\"2\""})
    expect_blamed(chat_with("\"n\": " + std::string(value)), "n");
  for (const char* value : {"0", "-2", "0.5", "9223372036854775808", "2147483648"})
    expect_blamed(chat_with("\"max_tokens\": " + std::string(value)), "max_tokens");
  expect_blamed(chat_with(R"("top_p": 1.01)"), "top_p");
  expect_blamed(chat_with(R"("min_p": -0.01)"), "min_p");
  expect_blamed(chat_with(R"("presence_penalty": 2.5)"), "presence_penalty");
  expect_blamed(chat_with(R"("frequency_penalty": -2.5)"), "frequency_penalty");
  expect_blamed(chat_with(R"("repetition_penalty": 0)"), "repetition_penalty");
  expect_blamed(chat_with(R"("top_k": -2)"), "top_k");
  expect_blamed(chat_with(R"("seed": 1.5)"), "seed");
  expect_blamed(chat_with(R"("stream": "yes")"), "stream");
}

TEST(ChatRequestBody, SamplingIsReadAndWhatIsAbsentStaysAbsent) {
  const GenerationOptions none = chat(chat_with("")).options;
  EXPECT_FALSE(none.temperature || none.top_p || none.top_k || none.seed);
  EXPECT_EQ(-1, none.max_tokens);
  EXPECT_EQ(-1, none.logprobs);
  const GenerationOptions some =
      chat(chat_with(R"("temperature": -0.0, "top_k": -1, "seed": 18446744073709551615, "n": 3.0, "max_tokens": 9,
                        "max_completion_tokens": 7, "top_p": null, "repeat_penalty": 1.5, "logprobs": true)"))
          .options;
  EXPECT_EQ(0.0, *some.temperature);
  EXPECT_FALSE(std::signbit(*some.temperature));
  EXPECT_EQ(0, *some.top_k);
  EXPECT_EQ(UINT64_MAX, *some.seed);
  EXPECT_EQ(3, some.n);
  EXPECT_EQ(7, some.max_tokens) << "the smaller one";
  EXPECT_FALSE(some.top_p) << "null is absent";
  EXPECT_EQ(1.5, *some.repetition_penalty);
  EXPECT_EQ(0, some.logprobs);
  EXPECT_FALSE(chat(chat_with(R"("seed": -1)")).options.seed) << "-1 asks for a random one";
}

TEST(ChatRequestBody, StopIsAStringOrAListWithoutEmptyOnes) {
  EXPECT_EQ(std::vector<std::string>{"a"}, chat(chat_with(R"("stop": "a")")).options.stop);
  EXPECT_EQ((std::vector<std::string>{"a", "b"}), chat(chat_with(R"("stop": ["a", "", "b"])")).options.stop);
  expect_blamed(chat_with(R"("stop": ["a\u0000b"])"), "stop");
  expect_blamed(chat_with(R"("stop": 5)"), "stop");
  expect_blamed(chat_with(R"("stop": [5])"), "stop");
  std::string many = "\"stop\": [\"x\"";
  for (int i = 0; i < 64; ++i) many += ", \"x\"";
  expect_blamed(chat_with(many + "]"), "stop");
  expect_blamed(chat_with("\"stop\": \"" + std::string(5000, 'x') + "\""), "stop");
}

TEST(ChatRequestBody, LogitBiasComesAsAMapOrAsPairs) {
  const auto bias = chat(chat_with(R"("logit_bias": {"5": -100, "7": 1.5})")).options.logit_bias;
  ASSERT_EQ(2U, bias.size());
  EXPECT_EQ(5, bias[0].token);
  EXPECT_EQ(1.5, bias[1].bias);
  const auto pairs = chat(chat_with(R"("logit_bias": [[5, 2], [6, false]])")).options.logit_bias;
  ASSERT_EQ(2U, pairs.size());
  EXPECT_EQ(-100, pairs[1].bias);
  for (const char* value : {R"({"x": 1})", R"({"5": 101})", R"({"5": "1"})", R"({"-1": 1})", R"([[5]])", R"([5])",
                            R"("5")", R"({"99999999999": 1})", R"([[5, true]])", R"({"5": 1e999})"})
    expect_blamed(chat_with("\"logit_bias\": " + std::string(value)), "logit_bias");
}

TEST(ChatRequestBody, MessagesAreCheckedWhereTheyStand) {
  expect_blamed("{}", "messages");
  expect_blamed(R"({"messages": []})", "messages");
  expect_blamed(R"({"messages": "Hi"})", "messages");
  expect_blamed(R"({"messages": [5]})", "messages[0]");
  expect_blamed(R"({"messages": [{"role": "system", "content": "Be kind"}]})", "messages");
  expect_blamed(R"({"messages": [{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}]})",
                "messages[1].role");
  expect_blamed(R"({"messages": [{"role": "user"}]})", "messages[0].content");
  expect_blamed(R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content");
  expect_blamed(R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})",
                "messages[0].content[0].type");
  expect_blamed(R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]}]})",
                "messages[0].tool_calls[0].function");
}

TEST(ChatRequestBody, HistoriesThatClientsSendAreTaken) {
  const ChatRequest request = chat(R"({"messages": [
    {"role": "developer", "content": "Be kind", "type": "text"},
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "content": null, "reasoning_content": "Hm.",
     "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"x\": 1}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Seen."}]})");
  const json::array& messages = request.template_request.at("messages").get_array();
  ASSERT_EQ(4U, messages.size());
  EXPECT_FALSE(messages[0].get_object().contains("type"));
  EXPECT_EQ("Hi", messages[1].at("content"));
  EXPECT_EQ("", messages[2].at("content"));
  EXPECT_EQ("Hm.", messages[2].at("reasoning_content"));
  EXPECT_EQ(json::value("{\"x\": 1}"), messages[2].at("tool_calls").at(0).at("function").at("arguments"));
  EXPECT_EQ("call_1", messages[3].at("tool_call_id"));
}

TEST(ChatRequestBody, ToolsAndTheirChoiceAreChecked) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "look"}}])";
  EXPECT_EQ("look", chat(chat_with(tools)).template_request.at("tools").at(0).at("function").at("name"));
  EXPECT_EQ("required", chat(chat_with(tools + R"(, "tool_choice": "required")")).template_request.at("tool_choice"));
  chat(chat_with(
      tools + R"(, "tool_choice": {"type": "function", "function": {"name": "look"}}, "parallel_tool_calls": false)"));
  expect_blamed(chat_with(R"("tool_choice": "required")"), "tool_choice");
  expect_blamed(chat_with(tools + R"(, "tool_choice": "maybe")"), "tool_choice");
  expect_blamed(chat_with(tools + R"(, "tool_choice": {"type": "function", "function": {"name": "jump"}})"),
                "tool_choice.function");
  expect_blamed(chat_with(R"("tools": [{"type": "function"}])"), "tools[0].function");
  expect_blamed(chat_with(R"("tools": [{"type": "web", "function": {"name": "x"}}])"), "tools[0].type");
  expect_blamed(chat_with(R"("tools": [{"type": "function", "function": {"name": 5}}])"), "tools[0].function.name");
}

TEST(ChatRequestBody, WhatIsKnownAndNotSupportedIsRefusedUnlessItDoesNothing) {
  expect_blamed(chat_with(R"("typical_p": 0.5)"), "typical_p");
  expect_blamed(chat_with(R"("mirostat": 2)"), "mirostat");
  expect_blamed(chat_with(R"("grammar": "root ::= x")"), "grammar");
  expect_blamed(chat_with(R"("functions": [])"), "functions");
  expect_blamed(chat_with(R"("modalities": ["audio"])"), "modalities");
  expect_blamed(chat_with(R"("top_logprobs": 3)"), "top_logprobs");
  expect_blamed(chat_with(R"("logprobs": true, "top_logprobs": 33)"), "top_logprobs");
  expect_blamed(chat_with(R"("stream_options": {"include_usage": true})"), "stream_options");
  expect_blamed(chat_with(R"("chat_template_kwargs": {"messages": []})"), "chat_template_kwargs");
  EXPECT_TRUE(chat(chat_with(R"("typical_p": 1, "mirostat": 0, "modalities": ["text"], "user": "u", "store": true)"))
                  .unknown.empty());
}

TEST(ChatRequestBody, UnknownMembersAreIgnoredAndNamed) {
  EXPECT_EQ((std::vector<std::string>{"frobnicate"}),
            chat(chat_with(R"("frobnicate": {"a": [1]}, "user": "u")")).unknown);
}

TEST(ChatRequestBody, ResponseFormatsBecomeOpenAis) {
  EXPECT_FALSE(chat(chat_with(R"("response_format": {"type": "text"})")).template_request.contains("response_format"));
  EXPECT_EQ("json_object", chat(chat_with(R"("response_format": {"type": "json_object"})"))
                               .template_request.at("response_format")
                               .at("type"));
  for (const char* members : {R"("response_format": {"type": "json_object", "schema": {"type": "string"}})",
                              R"("json_schema": {"type": "string"})"})
    EXPECT_EQ(
        "string",
        chat(chat_with(members)).template_request.at("response_format").at("json_schema").at("schema").at("type"));
  expect_blamed(chat_with(R"("response_format": {"type": "xml"})"), "response_format.type");
  expect_blamed(chat_with(R"("response_format": {})"), "response_format.type");
  expect_blamed(chat_with(R"("response_format": {"type": "json_schema"})"), "response_format.json_schema");
}

TEST(ChatRequestBody, ReasoningEffortBecomesAVariableOfTheTemplate) {
  const auto variables = [](const char* members) {
    return chat(chat_with(members)).template_request.at("chat_template_kwargs").get_object();
  };
  EXPECT_EQ("high", variables(R"("reasoning_effort": "high")").at("reasoning_effort"));
  EXPECT_EQ(false, variables(R"("reasoning_effort": "none")").at("enable_thinking"));
  EXPECT_EQ(true, variables(R"("reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": true})")
                      .at("enable_thinking"));
  expect_blamed(chat_with(R"("reasoning_effort": "extreme")"), "reasoning_effort");
}

// ---- completions

CompletionRequest completion(const std::string& text) {
  CompletionRequest request;
  const auto error = read_completion_request(parsed(text), request);
  EXPECT_FALSE(error.has_value()) << text << ": " << error->message;
  return request;
}

TEST(CompletionRequestBody, PromptsComeInFourForms) {
  EXPECT_EQ("Once", std::get<std::string>(completion(R"({"prompt": "Once"})").prompts.at(0)));
  EXPECT_EQ(2U, completion(R"({"prompt": ["a", "b"]})").prompts.size());
  EXPECT_EQ((api::TokenIds{5, 6}), std::get<api::TokenIds>(completion(R"({"prompt": [5, 6]})").prompts.at(0)));
  const auto two = completion(R"({"prompt": [[5, 6], [7]]})").prompts;
  ASSERT_EQ(2U, two.size());
  EXPECT_EQ((api::TokenIds{7}), std::get<api::TokenIds>(two[1]));
}

TEST(CompletionRequestBody, BadPromptsAndParametersAreBlamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "prompt"},
      {R"({"prompt": ""})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [""]})", "prompt"},
      {R"({"prompt": [[]]})", "prompt"},
      {R"({"prompt": [5, 1.5]})", "prompt"},
      {R"({"prompt": [5, 99999999999]})", "prompt"},
      {R"({"prompt": [{}]})", "prompt"},
      {R"({"prompt": 5})", "prompt"},
      {R"({"prompt": "a", "best_of": 2})", "best_of"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix"},
      {R"({"prompt": "a", "logprobs": 33})", "logprobs"},
      {R"({"prompt": "a", "logprobs": true})", "logprobs"},
      {R"({"prompt": ["a", "b", "c", "d", "e"], "n": 128})", "n"},
  };
  for (const auto& [text, param] : cases) {
    CompletionRequest request;
    const auto error = read_completion_request(parsed(text), request);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(param, error->param) << text << ": " << error->message;
  }
}

TEST(CompletionRequestBody, DefaultsAreOpenAis) {
  const CompletionRequest request = completion(R"({"prompt": "a", "echo": true, "logprobs": 1, "n": 2, "best_of": 2})");
  EXPECT_EQ(16, request.options.max_tokens);
  EXPECT_TRUE(request.options.echo);
  EXPECT_EQ(1, request.options.logprobs);
  EXPECT_TRUE(request.constraint.empty());
  EXPECT_EQ(0, completion(R"({"prompt": "a", "max_tokens": 0})").options.max_tokens);
  EXPECT_EQ(R"({"json": true})",
            completion(R"({"prompt": "a", "response_format": {"type": "json_object"}})").constraint);
  EXPECT_EQ(R"({"schema": {"type": "null"}})",
            completion(R"({"prompt": "a", "json_schema": {"type": "null"}})").constraint);
}

// ---- Anthropic's messages

ChatRequest anthropic(const std::string& text) {
  ChatRequest request;
  const auto error = read_messages_request(parsed(text), false, request);
  EXPECT_FALSE(error.has_value()) << text << ": " << error->message;
  return request;
}

TEST(MessagesRequestBody, BlocksBecomeOpenAisMessages) {
  const ChatRequest request =
      anthropic(R"({"model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "Be kind"}],
    "messages": [{"role": "user", "content": "Look."},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": ""},
        {"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "look", "input": {"x": 1}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true,
        "content": [{"type": "text", "text": "Dark."}]}, {"type": "text", "text": "And?"}]}],
    "tools": [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": true},
    "stop_sequences": ["END"], "thinking": {"type": "enabled", "budget_tokens": 1024}})");
  const json::array& messages = request.template_request.at("messages").get_array();
  ASSERT_EQ(5U, messages.size());
  EXPECT_EQ("system", messages[0].at("role"));
  EXPECT_EQ("I look.", messages[2].at("content"));
  EXPECT_EQ("Hm.", messages[2].at("reasoning_content"));
  EXPECT_EQ(1, messages[2].at("tool_calls").at(0).at("function").at("arguments").at("x"));
  EXPECT_EQ("tool", messages[3].at("role"));
  EXPECT_EQ("Error: Dark.", messages[3].at("content"));
  EXPECT_EQ("And?", messages[4].at("content"));
  EXPECT_EQ("look", request.template_request.at("tool_choice").at("function").at("name"));
  EXPECT_EQ(false, request.template_request.at("parallel_tool_calls"));
  EXPECT_EQ(true, request.template_request.at("chat_template_kwargs").at("enable_thinking"));
  EXPECT_EQ(std::vector<std::string>{"END"}, request.options.stop);
  EXPECT_EQ(5, request.options.max_tokens);
}

TEST(MessagesRequestBody, WhatIsMissingOrForeignIsBlamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": [{"role": "user", "content": "a"}]})", "max_tokens"},
      {R"({"max_tokens": 5})", "messages"},
      {R"({"max_tokens": 5, "messages": []})", "messages"},
      {R"({"max_tokens": 5, "messages": [{"role": "system", "content": "a"}]})", "messages[0].role"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "b"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "tools": [{"type": "web_search_20250305", "name": "w"}]})",
       "tools[0].type"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "tool_choice": {"type": "any"}})",
       "tool_choice.type"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}], "mcp_servers": [{}]})", "mcp_servers"},
  };
  for (const auto& [text, param] : cases) {
    ChatRequest request;
    const auto error = read_messages_request(parsed(text), false, request);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(param, error->param) << text << ": " << error->message;
  }
  ChatRequest request;
  EXPECT_FALSE(read_messages_request(parsed(cases[0].first), true, request).has_value())
      << "counting needs no max_tokens";
}

// ---- responses

TEST(ResponsesRequestBody, ItemsBecomeMessages) {
  ChatRequest request;
  const auto error = read_responses_request(parsed(R"({"model": "m", "instructions": "Be kind", "max_output_tokens": 5,
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
      {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
      {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
      {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c", "output": "Dark."}],
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    "tool_choice": {"type": "function", "name": "look"}, "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "null"}}}})"),
                                            request);
  ASSERT_FALSE(error.has_value()) << error->message;
  const json::array& messages = request.template_request.at("messages").get_array();
  ASSERT_EQ(4U, messages.size());
  EXPECT_EQ("system", messages[0].at("role"));
  EXPECT_EQ("Look.", messages[1].at("content"));
  EXPECT_EQ("I look.", messages[2].at("content"));
  EXPECT_EQ("Hm.", messages[2].at("reasoning_content"));
  EXPECT_EQ("look", messages[2].at("tool_calls").at(0).at("function").at("name"));
  EXPECT_EQ("c", messages[3].at("tool_call_id"));
  EXPECT_EQ("look", request.template_request.at("tools").at(0).at("function").at("name"));
  EXPECT_EQ("null", request.template_request.at("response_format").at("json_schema").at("schema").at("type"));
  EXPECT_EQ(5, request.options.max_tokens);
}

TEST(ResponsesRequestBody, WhatNeedsAStoreIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": "a", "previous_response_id": "resp_1"})", "previous_response_id"},
      {R"({"input": [{"type": "item_reference", "id": "x"}]})", "input[0].type"},
      {R"({"input": "a", "tools": [{"type": "web_search"}]})", "tools[0].type"},
      {R"({"input": "a", "max_output_tokens": 0})", "max_output_tokens"},
  };
  for (const auto& [text, param] : cases) {
    ChatRequest request;
    const auto error = read_responses_request(parsed(text), request);
    ASSERT_TRUE(error.has_value()) << text;
    EXPECT_EQ(param, error->param) << text << ": " << error->message;
  }
}

}  // namespace
}  // namespace colibri::server
