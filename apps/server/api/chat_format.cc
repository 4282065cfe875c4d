// Chat completions: https://platform.openai.com/docs/api-reference/chat
#include "answer_format.h"
#include "colibri/colibri.h"

namespace colibri::server {
namespace {

json::array bytes_json(std::string_view bytes) {
  json::array out;
  out.reserve(bytes.size());
  for (const char c : bytes) out.push_back(static_cast<int64_t>(static_cast<unsigned char>(c)));
  return out;
}

json::object entry(int32_t token, float logprob, const TokenTexts& texts) {
  const std::string bytes = texts.bytes_of(token);
  return {{"token", to_utf8(bytes)}, {"logprob", logprob_json(logprob)}, {"bytes", bytes_json(bytes)}};
}

json::value logprobs_json(const std::vector<TokenLogprob>& entries, bool wanted, const TokenTexts& texts) {
  if (!wanted) return nullptr;
  json::array content;
  for (const TokenLogprob& one : entries) {
    json::array top;
    for (const auto& [token, logprob] : one.top) top.push_back(entry(token, logprob, texts));
    json::object written = entry(one.token, one.logprob, texts);
    written["top_logprobs"] = std::move(top);
    content.push_back(std::move(written));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json::object delta_json(const Delta& delta) {
  switch (delta.kind) {
    case Delta::Kind::kContent:
      return {{"content", delta.text}};
    case Delta::Kind::kReasoning:
      return {{"reasoning_content", delta.text}};
    case Delta::Kind::kCallBegins:
      return {{"tool_calls",
               json::array{json::object{{"index", delta.call},
                                        {"id", delta.id},
                                        {"type", "function"},
                                        {"function", json::object{{"name", delta.name}, {"arguments", delta.text}}}}}}};
    case Delta::Kind::kCallArguments:
      return {{"tool_calls", json::array{json::object{{"index", delta.call},
                                                      {"function", json::object{{"arguments", delta.text}}}}}}};
  }
  return {};
}

json::object message_json(const Choice& choice) {
  json::object message{{"role", "assistant"}};
  message["content"] =
      choice.content.empty() && !choice.calls.empty() ? json::value(nullptr) : json::value(choice.content);
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  message["refusal"] = nullptr;
  if (choice.calls.empty()) return message;
  json::array calls;
  for (const ToolCall& call : choice.calls)
    calls.push_back(json::object{{"id", call.id},
                                 {"type", "function"},
                                 {"function", json::object{{"name", call.name}, {"arguments", call.arguments}}}});
  message["tool_calls"] = std::move(calls);
  return message;
}

class ChatFormat : public AnswerFormat {
 public:
  ChatFormat(AnswerHead head, const TokenTexts& texts) : head_(std::move(head)), texts_(texts) {}

  HttpResponse body(const std::vector<Choice>& choices, const Usage& usage, const json::object& extras) override {
    json::array written;
    for (const Choice& choice : choices)
      written.push_back(json::object{{"index", choice.index},
                                     {"message", message_json(choice)},
                                     {"logprobs", logprobs_json(choice.logprobs, head_.logprobs, texts_)},
                                     {"finish_reason", json::value(openai_finish_reason(choice.finish))}});
    json::object answer = envelope("chat.completion", std::move(written));
    answer["usage"] = openai_usage(usage);
    for (const auto& member : extras) answer[member.key()] = member.value();
    HttpResponse response;
    response.body = common::dump_json(answer);
    return response;
  }

  std::string begin(const Usage&) override {
    std::string frames;
    for (size_t i = 0; i < head_.n_choices; ++i)
      frames += data_frame(chunk(static_cast<int>(i), {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
    return frames;
  }

  std::string progress(const PromptProgress& progress) override {
    json::object frame = chunk(0, {}, nullptr, nullptr);
    frame["prompt_progress"] = {{"total", progress.total},
                                {"cache", progress.cached},
                                {"processed", progress.processed},
                                {"time_ms", progress.seconds * 1e3}};
    if (progress.queue_position >= 0) frame["queue_position"] = progress.queue_position;
    return data_frame(frame);
  }

  std::string piece(int choice, const std::vector<Delta>& deltas, const std::vector<TokenLogprob>& logprobs,
                    const json::value& timings) override {
    std::string frames;
    for (const Delta& delta : deltas) {
      // The log probabilities go with the first of them.
      const bool first = &delta == deltas.data();
      json::value entries = logprobs_json(logprobs, head_.logprobs && first, texts_);
      json::object frame = chunk(choice, delta_json(delta), std::move(entries), nullptr);
      if (!timings.is_null()) frame["timings"] = timings;
      frames += data_frame(frame);
    }
    return frames;
  }

  std::string finish(const Choice& choice, const std::vector<TokenLogprob>& logprobs,
                     const json::object& extras) override {
    json::value entries = logprobs_json(logprobs, !logprobs.empty(), texts_);
    json::object frame = chunk(choice.index, {}, std::move(entries), json::value(openai_finish_reason(choice.finish)));
    for (const auto& member : extras) frame[member.key()] = member.value();
    return data_frame(frame);
  }

  std::string end(const Usage& usage) override {
    std::string frames;
    if (head_.include_usage) {
      json::object frame = envelope("chat.completion.chunk", {});
      frame["usage"] = openai_usage(usage);
      frames += data_frame(frame);
    }
    return frames += "data: [DONE]\n\n";
  }

  std::string error(const ApiError& error) override { return "data: " + openai_error(error) + "\n\n"; }

 private:
  json::object envelope(std::string_view object, json::array choices) const {
    return {{"id", "chatcmpl-" + head_.id},
            {"object", object},
            {"created", head_.created},
            {"model", head_.model},
            {"system_fingerprint", std::string("colibri-") + colibri_version()},
            {"choices", std::move(choices)}};
  }

  json::object chunk(int choice, json::object delta, json::value logprobs, json::value finish_reason) const {
    json::object written{{"index", choice}, {"delta", std::move(delta)}};
    if (!logprobs.is_null() || head_.logprobs) written["logprobs"] = std::move(logprobs);
    written["finish_reason"] = std::move(finish_reason);
    json::array choices;
    choices.push_back(std::move(written));
    json::object frame = envelope("chat.completion.chunk", std::move(choices));
    if (head_.include_usage) frame["usage"] = nullptr;
    return frame;
  }

  AnswerHead head_;
  const TokenTexts& texts_;
};

}  // namespace

std::string data_frame(const json::value& value) { return "data: " + common::dump_json(value) + "\n\n"; }

std::string named_frame(std::string_view name, const json::value& value) {
  return "event: " + std::string(name) + "\n" + data_frame(value);
}

std::string_view openai_finish_reason(FinishReason reason) {
  if (reason == FinishReason::kToolCalls) return "tool_calls";
  return reason == FinishReason::kLength ? "length" : "stop";
}

json::object openai_usage(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

std::unique_ptr<AnswerFormat> chat_format(AnswerHead head, const TokenTexts& texts) {
  return std::make_unique<ChatFormat>(std::move(head), texts);
}

}  // namespace colibri::server
