// colibri_answer_* as a server uses it: the prompt, the answer's form, the text in pieces, and what is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "colibri/colibri.hpp"

namespace {

namespace api = colibri::api;
namespace fs = std::filesystem;

constexpr const char* kTemplate =
    R"({% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}
[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}
{% if tools %}{{ tools|length }} tools{% endif %}<assistant>[THINK])";

class Answer : public testing::Test {
 protected:
  void SetUp() override {
    path_ = fs::path(testing::TempDir()) / ("colibri_answer_" + std::to_string(getpid()) + ".jinja");
    std::ofstream(path_, std::ios::binary) << kTemplate;
    auto text = api::Text::open(COLIBRI_SOURCE_DIR "/tests/data/tokenizer_files/tekken", path_.string());
    ASSERT_TRUE(text.ok()) << text.error().message;
    text_ = std::make_unique<api::Text>(std::move(*text));
  }
  void TearDown() override { fs::remove(path_); }

  const colibri_text* handle() const { return text_->view().handle(); }
  api::Outcome<api::Answer> open(const std::string& request) const {
    return api::Answer::open(handle(), request, *text_->view().apply_template(request));
  }

  fs::path path_;
  std::unique_ptr<api::Text> text_;
};

constexpr const char* kRequest =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null,
  "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "answer_id": "chat-1")";

TEST_F(Answer, ComesAsDeltasInOrder) {
  const std::string request = std::string(kRequest) + "}";
  EXPECT_EQ(*text_->view().apply_template(request),
            "<user>Hi<assistant>[TOOL_CALLS]f[ARGS]{\"a\": 1}1 tools<assistant>[THINK]");
  auto answer = open(request);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(*answer->constraint(), "");
  EXPECT_EQ(*answer->push("hm[/TH"), R"([{"reasoning": "hm"}])");
  EXPECT_EQ(*answer->push("INK]Yes.[TOOL"), R"([{"content": "Yes."}])");
  EXPECT_EQ(*answer->push("_CALLS]f[ARGS]"), "[]");
  const std::string begun = *answer->push("{\"b\"");
  EXPECT_EQ(begun.find(R"([{"tool_call": {"index": 0, "id": ")"), 0U) << begun;
  EXPECT_NE(begun.find(R"("name": "f", "arguments": ""}}, {"tool_call": {"index": 0, "arguments": "{\"b\""}}])"),
            std::string::npos)
      << begun;
  EXPECT_EQ(*answer->push(": 2}"), R"([{"tool_call": {"index": 0, "arguments": ": 2}"}}])");
  EXPECT_EQ(*answer->finish(), "[]");
  EXPECT_EQ(answer->push("x").error().code, COLIBRI_USAGE);
}

TEST_F(Answer, SpecialTokensOfItsFormAreKept) {
  const auto kept = [&](const std::string& request) {
    api::TokenIds ids = *open(request)->kept_special();
    return *text_->view().detokenize(ids);
  };
  const std::string with_calls = kept(std::string(kRequest) + "}");
  const std::string without = kept(std::string(kRequest) + R"(, "tool_choice": "none"})");
  EXPECT_NE(with_calls.find("[TOOL_CALLS]"), std::string::npos) << with_calls;
  EXPECT_EQ(without.find("[TOOL_CALLS]"), std::string::npos) << without;
}

TEST_F(Answer, WithoutACallToMakeTheModelIsShownNoToolsAndMarkersAreText) {
  const std::string request = std::string(kRequest) + R"(, "tool_choice": "none"})";
  EXPECT_EQ(text_->view().apply_template(request)->find("tools"), std::string::npos);
  auto answer = open(request);
  (void)*answer->push("[/THINK][TOOL_CALLS]f[ARGS]{}");
  EXPECT_EQ(*answer->finish(), "[]");
}

TEST_F(Answer, WhatItMustLookLikeFollowsFromTheRequest) {
  EXPECT_EQ(
      *open(std::string(kRequest) + R"(, "tool_choice": "required", "parallel_tool_calls": false})")->constraint(),
      R"({"sequence": [{"until": "[/THINK]"}, {"optional": {"literal": "\n\n"}}, )"
      R"({"literal": "[TOOL_CALLS]"}, {"literal": "f[ARGS]"}, {"schema": {"type": "object"}}]})");
}

TEST_F(Answer, WhatMakesNoSenseIsRefused) {
  const auto refusal = [&](const std::string& request) {
    const auto answer = api::Answer::open(handle(), request, "");
    return answer.ok() ? api::Error{COLIBRI_OK, "accepted"} : answer.error();
  };
  EXPECT_EQ(refusal("{").code, COLIBRI_USAGE);
  EXPECT_EQ(refusal("[]").code, COLIBRI_USAGE);
  EXPECT_NE(refusal(R"({"tool_choice": "required"})").message.find("tool_choice"), std::string::npos);
  EXPECT_NE(refusal(R"({"response_format": {"type": "yaml"}})").message.find("response_format"), std::string::npos);
}

TEST(AnswerWithoutText, NullArgumentsAreRefusedByName) {
  colibri_error error{};
  colibri_answer* answer = nullptr;
  colibri_string string{};
  colibri_ids ids{};
  EXPECT_EQ(colibri_answer_open(nullptr, "{}", 2, "", 0, &answer, &error), COLIBRI_USAGE);
  EXPECT_NE(std::string(error.message).find("text"), std::string::npos);
  EXPECT_EQ(colibri_answer_push(nullptr, "", 0, &string, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_answer_finish(nullptr, nullptr, &error), COLIBRI_USAGE);
  EXPECT_EQ(colibri_answer_constraint(nullptr, &string, nullptr), COLIBRI_USAGE);
  EXPECT_EQ(colibri_answer_kept_special(nullptr, &ids, &error), COLIBRI_USAGE);
  colibri_answer_free(nullptr);
}

}  // namespace
