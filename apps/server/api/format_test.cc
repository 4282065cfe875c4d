// What the dialects write: frames in the order that clients rely on, bodies, log probabilities.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "answer_format.h"
#include "answer_reader.h"

namespace colibri::server {
namespace {

// Token 1 is "a", 2 "b" ...; 100 and 101 are parts of a character, 102 and 103 have the same text.
class FakeTexts : public TokenTexts {
 public:
  std::string bytes_of(int32_t token) const override {
    if (token == 100) return "\xe2\x82";
    if (token == 101) return "\xac";
    if (token >= 102) return "same";
    return std::string(1, static_cast<char>('a' + token - 1));
  }
};
const FakeTexts kTexts;

AnswerHead head(bool usage, bool logprobs, size_t n = 1) { return {"ID", "MODEL", 7, n, usage, logprobs}; }

Delta delta(Delta::Kind kind, std::string text, int call = 0, std::string id = {}, std::string name = {}) {
  return {kind, std::move(text), call, std::move(id), std::move(name)};
}
using enum Delta::Kind;

// The JSON of each data frame; "[DONE]" as a string. Checks the framing.
std::vector<json::value> frames_of(const std::string& text) {
  std::vector<json::value> frames;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at);
    EXPECT_NE(std::string::npos, end) << text;
    if (end == std::string::npos) break;
    std::string frame = text.substr(at, end - at);
    at = end + 2;
    if (frame.starts_with(":")) continue;
    const size_t data = frame.find("data: ");
    EXPECT_NE(std::string::npos, data) << frame;
    const std::string body = frame.substr(data + 6);
    EXPECT_EQ(std::string::npos, body.find('\n')) << "one line for each JSON: " << frame;
    if (body == "[DONE]") {
      frames.emplace_back(json::value("[DONE]"));
      continue;
    }
    auto value = common::parse_json(body, "frame");
    EXPECT_TRUE(value.ok()) << body;
    if (value.ok()) frames.push_back(*std::move(value));
  }
  return frames;
}

Choice choice_that_ended(FinishReason reason) {
  Choice choice;
  choice.finish = reason;
  return choice;
}

TEST(ChatFormat, ChunksComeInTheOrderThatClientsRelyOn) {
  const auto format = chat_format(head(true, false), kTexts);
  std::string text = format->begin({});
  text += format->piece(0, {delta(kReasoning, "Hm.")}, {}, nullptr);
  text += format->ping();
  text += format->piece(0, {delta(kContent, "A\nB"), delta(kCallBegins, "", 0, "call_1", "look")}, {}, nullptr);
  text += format->piece(0, {delta(kCallArguments, "{}", 0)}, {}, nullptr);
  text += format->finish(choice_that_ended(FinishReason::kToolCalls), {}, {});
  text += format->end({10, 4, 5, 2, {}});
  const auto frames = frames_of(text);
  ASSERT_EQ(8U, frames.size());
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ("chatcmpl-ID", frames[i].at("id"));
    EXPECT_EQ("chat.completion.chunk", frames[i].at("object"));
    EXPECT_EQ("MODEL", frames[i].at("model"));
    EXPECT_EQ(7, frames[i].at("created"));
  }
  const auto choice = [&](size_t i) -> const json::object& { return frames[i].at("choices").at(0).get_object(); };
  EXPECT_EQ("assistant", choice(0).at("delta").at("role"));
  EXPECT_EQ("", choice(0).at("delta").at("content"));
  EXPECT_EQ("Hm.", choice(1).at("delta").at("reasoning_content"));
  EXPECT_EQ("A\nB", choice(2).at("delta").at("content"));
  const json::value& begins = choice(3).at("delta").at("tool_calls").at(0);
  EXPECT_EQ(0, begins.at("index"));
  EXPECT_EQ("call_1", begins.at("id"));
  EXPECT_EQ("function", begins.at("type"));
  EXPECT_EQ("", begins.at("function").at("arguments"));
  const json::value& more = choice(4).at("delta").at("tool_calls").at(0);
  EXPECT_EQ(0, more.at("index"));
  EXPECT_EQ("{}", more.at("function").at("arguments"));
  EXPECT_FALSE(more.get_object().contains("id"));
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(choice(i).at("finish_reason").is_null());
  EXPECT_EQ("tool_calls", choice(5).at("finish_reason"));
  EXPECT_TRUE(choice(5).at("delta").get_object().empty());
  EXPECT_TRUE(frames[6].at("choices").get_array().empty());
  EXPECT_EQ(15, frames[6].at("usage").at("total_tokens"));
  EXPECT_EQ(4, frames[6].at("usage").at("prompt_tokens_details").at("cached_tokens"));
  EXPECT_EQ(2, frames[6].at("usage").at("completion_tokens_details").at("reasoning_tokens"));
  EXPECT_EQ("[DONE]", frames[7]);
}

TEST(ChatFormat, NoUsageChunkUnlessAskedFor) {
  const auto format = chat_format(head(false, false), kTexts);
  EXPECT_EQ("data: [DONE]\n\n", format->end({10, 4, 5, 2, {}}));
  EXPECT_EQ(std::string::npos, format->begin({}).find("usage"));
}

TEST(ChatFormat, EveryChoiceBegins) {
  const auto frames = frames_of(chat_format(head(false, false, 3), kTexts)->begin({}));
  ASSERT_EQ(3U, frames.size());
  EXPECT_EQ(2, frames[2].at("choices").at(0).at("index"));
}

TEST(ChatFormat, LogprobsGoWithTheFirstPieceAndNameBytes) {
  const auto format = chat_format(head(false, true), kTexts);
  const std::vector<TokenLogprob> entries = {{100, -0.5F, {{100, -0.5F}, {1, -2.25F}}, ""},
                                             {101, -0.25F, {}, "\xe2\x82\xac"}};
  const auto frames =
      frames_of(format->piece(0, {delta(kContent, "\xe2\x82\xac"), delta(kContent, "x")}, entries, nullptr));
  ASSERT_EQ(2U, frames.size());
  const json::array& content = frames[0].at("choices").at(0).at("logprobs").at("content").get_array();
  ASSERT_EQ(2U, content.size());
  EXPECT_EQ("\xef\xbf\xbd\xef\xbf\xbd", content[0].at("token"));
  EXPECT_EQ((json::array{0xe2, 0x82}), content[0].at("bytes"));
  EXPECT_EQ(-0.5, content[0].at("logprob"));
  EXPECT_EQ("a", content[0].at("top_logprobs").at(1).at("token"));
  EXPECT_TRUE(frames[1].at("choices").at(0).at("logprobs").is_null());
}

TEST(ChatFormat, TheBodyHasAllMembersThatStrictClientsWant) {
  Choice choice = choice_that_ended(FinishReason::kToolCalls);
  choice.calls.push_back({"call_1", "look", "{}"});
  choice.reasoning = "Hm.";
  const auto answer =
      chat_format(head(false, false), kTexts)->body({choice}, {10, 0, 5, 2, {}}, {{"timings", {{"n", 1}}}});
  const json::value body = common::parse_json(answer.body, "body").value();
  for (const char* name : {"id", "object", "created", "model", "choices", "usage", "system_fingerprint", "timings"})
    EXPECT_TRUE(body.get_object().contains(name)) << name;
  const json::value& message = body.at("choices").at(0).at("message");
  EXPECT_TRUE(message.at("content").is_null());
  EXPECT_EQ("Hm.", message.at("reasoning_content"));
  EXPECT_EQ("look", message.at("tool_calls").at(0).at("function").at("name"));
  EXPECT_EQ("tool_calls", body.at("choices").at(0).at("finish_reason"));
}

TEST(CompletionFormat, TheTablesAreWhatLmEvalReads) {
  Choice choice = choice_that_ended(FinishReason::kLength);
  const float none = std::numeric_limits<float>::quiet_NaN();
  choice.content = "abc";
  choice.logprobs = {{1, none, {}, "a"},
                     {2, -1.5F, {{3, -0.3F}}, "b"},
                     {103, -0.7F, {{102, -0.7F}, {1, -std::numeric_limits<float>::infinity()}}, "c"}};
  const auto answer = completion_format(head(false, true), kTexts)->body({choice}, {2, 0, 1, 0, {}}, {});
  const json::value body = common::parse_json(answer.body, "body").value();
  EXPECT_EQ("text_completion", body.at("object"));
  const json::value& tables = body.at("choices").at(0).at("logprobs");
  EXPECT_TRUE(tables.at("token_logprobs").at(0).is_null());
  EXPECT_TRUE(tables.at("top_logprobs").at(0).is_null());
  EXPECT_EQ(-1.5, tables.at("token_logprobs").at(1));
  EXPECT_EQ((json::object{{"c", -0.3}, {"b", -1.5}}), tables.at("top_logprobs").at(1))
      << "the chosen one is among them";
  const json::object& last = tables.at("top_logprobs").at(2).get_object();
  EXPECT_EQ(3U, last.size()) << "two ids with the same text keep both entries";
  EXPECT_EQ(last.at("same"), tables.at("token_logprobs").at(2)) << "the same float in both tables";
  EXPECT_EQ(-9999.0, last.at("a").to_number<double>());
  EXPECT_EQ((json::array{0, 1, 2}), tables.at("text_offset"));
  EXPECT_EQ((json::array{"a", "b", "same"}), tables.at("tokens"));
}

TEST(CompletionFormat, BytesThatAreNoTextHaveAKeyOfTheirOwn) {
  const auto format = completion_format(head(false, true), kTexts);
  const auto frames = frames_of(format->piece(0, {delta(kContent, "x")}, {{100, -0.5F, {}, ""}}, nullptr));
  EXPECT_EQ("bytes:\\xe2\\x82", frames.at(0).at("choices").at(0).at("logprobs").at("tokens").at(0));
}

TEST(CompletionFormat, OffsetsGoOnThroughAStream) {
  const auto format = completion_format(head(false, true), kTexts);
  format->piece(0, {delta(kContent, "\xe2\x82\xac")}, {{1, -1, {}, "\xe2\x82\xac"}}, nullptr);
  const auto frames = frames_of(format->piece(0, {delta(kContent, "b")}, {{2, -1, {}, "b"}}, nullptr));
  EXPECT_EQ((json::array{1}), frames.at(0).at("choices").at(0).at("logprobs").at("text_offset")) << "in characters";
}

std::vector<std::string> types_of(const std::vector<json::value>& frames) {
  std::vector<std::string> types;
  for (const json::value& frame : frames) types.emplace_back(frame.at("type").get_string());
  return types;
}

TEST(MessagesFormat, EventsComeInAnthropicsOrder) {
  const auto format = messages_format(head(false, false));
  std::string text = format->begin({10, 4, 0, 0, {}});
  text += format->piece(0, {delta(kReasoning, "Hm."), delta(kReasoning, " Yes.")}, {}, nullptr);
  text += format->piece(0, {delta(kContent, "I look.")}, {}, nullptr);
  text += format->piece(0,
                        {delta(kCallBegins, "", 0, "t1", "look"), delta(kCallArguments, "{}", 0),
                         delta(kCallBegins, "", 1, "t2", "jump")},
                        {}, nullptr);
  text += format->finish(choice_that_ended(FinishReason::kToolCalls), {}, {});
  text += format->end({10, 4, 5, 2, {}});
  const auto frames = frames_of(text);
  EXPECT_EQ((std::vector<std::string>{"message_start", "ping", "content_block_start", "content_block_delta",
                                      "content_block_delta", "content_block_stop", "content_block_start",
                                      "content_block_delta", "content_block_stop", "content_block_start",
                                      "content_block_delta", "content_block_stop", "content_block_start",
                                      "content_block_stop", "message_delta", "message_stop"}),
            types_of(frames));
  EXPECT_EQ("thinking", frames[2].at("content_block").at("type"));
  EXPECT_EQ("text_delta", frames[7].at("delta").at("type"));
  EXPECT_EQ(2, frames[9].at("index"));
  EXPECT_EQ("{}", frames[10].at("delta").at("partial_json"));
  EXPECT_EQ("tool_use", frames[14].at("delta").at("stop_reason"));
  EXPECT_EQ(6, frames[14].at("usage").at("input_tokens"));
  EXPECT_EQ(4, frames[14].at("usage").at("cache_read_input_tokens"));
  EXPECT_EQ(0U, text.find("event: message_start\ndata: "));
}

TEST(MessagesFormat, ErrorsHaveAnthropicsEnvelopeAndAFullQueueIsOverload) {
  const HttpResponse full = messages_format(head(false, false))->refusal({429, "full", "queue_full", {}, {}, 3});
  EXPECT_EQ(529, full.status);
  EXPECT_EQ(R"({"type": "error", "error": {"type": "overloaded_error", "message": "full"}})", full.body);
  EXPECT_EQ((Headers{{"Retry-After", "3"}}), full.headers);
  const HttpResponse bad = messages_format(head(false, false))->refusal({400, "bad", "x", "messages", {}, 0});
  EXPECT_NE(std::string::npos, bad.body.find("invalid_request_error"));
}

TEST(MessagesFormat, ACutCallKeepsWhatThereWas) {
  Choice choice = choice_that_ended(FinishReason::kLength);
  choice.calls.push_back({"t1", "look", "{\"x\": "});
  const auto answer = messages_format(head(false, false))->body({choice}, {}, {});
  const json::value body = common::parse_json(answer.body, "body").value();
  EXPECT_EQ("max_tokens", body.at("stop_reason"));
  EXPECT_EQ("{\"x\": ", body.at("content").at(0).at("input").at("partial_json"));
}

TEST(ResponsesFormat, EventsAreNumberedAndItemsOpenAndClose) {
  const auto format = responses_format(head(false, false));
  std::string text = format->begin({});
  text += format->piece(0, {delta(kContent, "I "), delta(kContent, "look.")}, {}, nullptr);
  text += format->piece(0, {delta(kCallBegins, "", 0, "c", "look"), delta(kCallArguments, "{}", 0)}, {}, nullptr);
  text += format->finish(choice_that_ended(FinishReason::kToolCalls), {}, {});
  text += format->end({10, 4, 5, 2, {}});
  const auto frames = frames_of(text);
  EXPECT_EQ((std::vector<std::string>{
                "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                "response.output_text.delta", "response.output_text.delta", "response.output_text.done",
                "response.content_part.done", "response.output_item.done", "response.output_item.added",
                "response.function_call_arguments.delta", "response.function_call_arguments.done",
                "response.output_item.done", "response.completed"}),
            types_of(frames));
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(static_cast<int64_t>(i), frames[i].at("sequence_number"));
  EXPECT_EQ("I look.", frames[6].at("text"));
  const json::value& whole = frames.back().at("response");
  EXPECT_EQ("completed", whole.at("status"));
  EXPECT_EQ("I look.", whole.at("output").at(0).at("content").at(0).at("text"));
  EXPECT_EQ("{}", whole.at("output").at(1).at("arguments"));
  EXPECT_EQ("c", whole.at("output").at(1).at("call_id"));
  EXPECT_EQ(15, whole.at("usage").at("total_tokens"));
  EXPECT_EQ(std::string::npos, text.find("[DONE]"));
}

TEST(Deltas, AreReadAsTheLibraryGivesThem) {
  const auto deltas = parse_deltas(R"([{"reasoning": "r"}, {"content": "c"},
    {"tool_call": {"index": 1, "id": "i", "name": "n", "arguments": ""}}, {"tool_call": {"index": 1, "arguments": "{}"}}])");
  ASSERT_TRUE(deltas.ok());
  ASSERT_EQ(4U, deltas->size());
  EXPECT_EQ(kReasoning, (*deltas)[0].kind);
  EXPECT_EQ(kContent, (*deltas)[1].kind);
  EXPECT_EQ(kCallBegins, (*deltas)[2].kind);
  EXPECT_EQ("n", (*deltas)[2].name);
  EXPECT_EQ(kCallArguments, (*deltas)[3].kind);
  EXPECT_EQ(1, (*deltas)[3].call);
  EXPECT_TRUE(parse_deltas("")->empty());
  EXPECT_FALSE(parse_deltas("{}").ok());
}

TEST(Text, Utf8IsToldFromOtherBytes) {
  EXPECT_TRUE(is_utf8("a\xe2\x82\xac\xf0\x9f\x98\x80"));
  for (const char* bad : {"\xff", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"})
    EXPECT_FALSE(is_utf8(bad));
  EXPECT_EQ("a\xef\xbf\xbd", to_utf8("a\xff"));
  EXPECT_EQ(2U, count_characters("a\xe2\x82\xac"));
}

TEST(Text, LogprobsAreWrittenWithTheDigitsOfAFloat) {
  EXPECT_EQ("-0.1", common::dump_json(logprob_json(-0.1F)));
  EXPECT_EQ("null", common::dump_json(logprob_json(std::nanf(""))));
}

}  // namespace
}  // namespace colibri::server
