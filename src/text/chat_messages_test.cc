// Histories as clients send them, in the published templates.
#include "text/chat_messages.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace colibri::text {
namespace {

namespace fs = std::filesystem;

ChatTemplate parsed(std::string_view source) { return ChatTemplate::parse(source, "t").value(); }

MessageForm form_of(std::string_view source) { return message_form_of(parsed(source), source); }

Json put(const char* messages, const MessageForm& form) {
  return messages_for_template(parse_json(messages).value(), form);
}

constexpr const char* kHistory = R"([{"role": "user", "content": "Hi"},
  {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
    "function": {"name": "f", "arguments": "{\"a\": [1, \"x\"]}"}}]},
  {"role": "tool", "tool_call_id": "call_1", "content": "ok"}])";

TEST(ChatMessages, ArgumentsBecomeAnObjectForTemplatesThatIterateThem) {
  const MessageForm form =
      form_of(R"({% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<{{ c.function.name
    }}{% for k, v in c.function.arguments|items %} {{ k }}={{ v }}{% endfor %}>{% endfor %}{% endfor %})");
  EXPECT_TRUE(form.calls);
  EXPECT_FALSE(form.arguments_as_text);
  const Json messages = put(kHistory, form);
  const Json& call = messages.as_array()[1].find("tool_calls")->as_array()[0];
  EXPECT_EQ(*call.find("function")->find("arguments"), parse_json(R"({"a": [1, "x"]})").value());
  EXPECT_EQ(*messages.as_array()[1].find("content"), Json(""));
}

TEST(ChatMessages, ArgumentsStayTextForTemplatesThatAddThemToText) {
  const MessageForm form =
      form_of(R"({% for m in messages %}{% if m.role == 'assistant' and m.content is none %}{% for c in
    m.tool_calls %}{{ c.function.name + ' ' + c.function.arguments }}{% endfor %}{% endif %}{% endfor %})");
  EXPECT_TRUE(form.calls);
  EXPECT_TRUE(form.arguments_as_text);
  EXPECT_TRUE(form.null_content);
  const Json given = put(R"([{"role": "assistant", "content": "", "tool_calls": [
    {"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]}])",
                         form);
  EXPECT_EQ(given.as_array()[0].dump(),
            R"({"role": "assistant", "content": null, "tool_calls": [{"id": "c", )"
            R"("function": {"name": "f", "arguments": "{\"a\": 1}"}, "type": "function"}]})");
}

TEST(ChatMessages, ArgumentsThatAreNoObjectStayAsTheyCame) {
  MessageForm form;
  form.calls = true;
  const Json messages = put(R"([{"role": "assistant", "content": "x", "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": "{broken"}}, 7]}, null, "x", 3])",
                            form);
  EXPECT_EQ(*messages.as_array()[0].find("tool_calls")->as_array()[0].find("function")->find("arguments"),
            Json("{broken"));
}

TEST(ChatMessages, PartsAreJoinedWhereTheTemplateReadsOnlyText) {
  const char* messages =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  const MessageForm only_text = form_of("{% for m in messages %}{{ '<' + m.content + '>' }}{% endfor %}");
  EXPECT_FALSE(only_text.parts);
  EXPECT_EQ(*put(messages, only_text).as_array()[0].find("content"), Json("ab"));
  const MessageForm both =
      form_of(R"({% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in
    m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %})");
  EXPECT_TRUE(both.parts);
  EXPECT_EQ(put(messages, both), parse_json(messages).value());
}

TEST(ChatMessages, RolesAndReasoningGoByTheNamesThatTheTemplateHas) {
  const char* messages = R"([{"role": "developer", "content": "d"},
    {"role": "assistant", "content": "a", "reasoning_content": "r"}])";
  const Json plain = put(messages, form_of("{{ messages[0].role }}"));
  EXPECT_EQ(*plain.as_array()[0].find("role"), Json("system"));
  EXPECT_EQ(*plain.as_array()[1].find("reasoning_content"), Json("r"));
  const Json other = put(messages, form_of("{{ messages[0].role == 'developer' }}{{ messages[0].thinking }}"));
  EXPECT_EQ(*other.as_array()[0].find("role"), Json("developer"));
  EXPECT_EQ(*other.as_array()[1].find("thinking"), Json("r"));
}

TEST(ChatMessages, IdsAreShortWhereTheTemplateRefusesOthersAndStillFitTogether) {
  MessageForm form;
  form.calls = form.nine_letter_ids = true;
  const Json messages = put(kHistory, form);
  const std::string id = messages.as_array()[1].find("tool_calls")->as_array()[0].find("id")->as_string();
  EXPECT_EQ(id.size(), 9U);
  EXPECT_EQ(*messages.as_array()[2].find("tool_call_id"), Json(id));
}

TEST(ChatMessages, WhateverIsNoListOfMessagesComesBack) {
  EXPECT_EQ(messages_for_template(Json("x"), {}), Json("x"));
  EXPECT_EQ(put(R"([{"role": 1, "tool_calls": 2, "content": [3]}])", {}).as_array().size(), 1U);
}

// --- published templates ---

fs::path published() {
  const char* shared = std::getenv("COLIBRI_SHARED");
  const fs::path root = shared != nullptr ? fs::path(shared) : fs::path(COLIBRI_SOURCE_DIR) / "../shared";
  return root / "oracle/chat_templates/templates";
}

// Those that show no tool calls, or need variables that only their own host gives.
const std::vector<std::string> kWithoutCalls = {"HuggingFaceTB-SmolLM3-3B",
                                                "LFM2-8B-A1B",
                                                "LFM2.5-Instruct",
                                                "fireworks-ai-llama-3-firefunction-v2",
                                                "google-gemma-2-2b-it",
                                                "llama-cpp-rwkv-world",
                                                "microsoft-Phi-3.5-mini-instruct",
                                                "tokenizer-gemma3",
                                                "Kimi-K2-Instruct",
                                                "llama-cpp-deepseek-r1"};

// The history that every agent sends, arguments as a text and content null, is rendered by every template with tools.
TEST(ChatMessages, EveryPublishedTemplateRendersAHistoryOfAnyClient) {
  if (!fs::exists(published())) GTEST_SKIP() << "no templates at " << published();
  for (const auto& entry : fs::directory_iterator(published())) {
    const std::string name = entry.path().stem().string();
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    const ChatTemplate chat = parsed(source);
    const MessageForm form = message_form_of(chat, source);
    const bool without = std::find(kWithoutCalls.begin(), kWithoutCalls.end(), name) != kWithoutCalls.end();
    EXPECT_EQ(form.calls, !without) << name;
    if (without) continue;
    Json context =
        parse_json(R"({"tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
      {"type": "object", "properties": {"a": {"type": "string", "description": "x"}}, "required": ["a"]}}}],
      "add_generation_prompt": true, "bos_token": "", "eos_token": "", "documents": null})")
            .value();
    context.set("messages", put(R"([{"role": "user", "content": "Hi"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
        "function": {"name": "f", "arguments": "{\"a\": \"rome\"}"}}]},
      {"role": "tool", "tool_call_id": "call_1", "content": "ok"}])",
                                form));
    const auto text = chat.render(context, {});
    ASSERT_TRUE(text.ok()) << name << ": " << text.error().message;
    EXPECT_NE(text->find("rome"), std::string::npos) << name;
    EXPECT_EQ(text->find("\\\"rome"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace colibri::text
