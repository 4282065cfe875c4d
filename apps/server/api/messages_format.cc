// Anthropic's messages: https://docs.anthropic.com/en/api/messages
#include "answer_format.h"

namespace colibri::server {
namespace {

std::string_view stop_reason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "max_tokens";
    case FinishReason::kToolCalls:
      return "tool_use";
    case FinishReason::kStopString:
      return "stop_sequence";
    default:
      return "end_turn";
  }
}

json::value stop_sequence(const Choice& choice) {
  return choice.finish == FinishReason::kStopString ? json::value(choice.stop) : json::value(nullptr);
}

json::object usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

// An answer that was cut may end inside the arguments.
json::value input_of(const std::string& arguments) {
  auto parsed = common::parse_json(arguments.empty() ? "{}" : arguments, "arguments");
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : json::value{{"partial_json", arguments}};
}

json::array content_json(const Choice& choice) {
  json::array blocks;
  if (!choice.reasoning.empty())
    blocks.push_back(json::object{{"type", "thinking"}, {"thinking", choice.reasoning}, {"signature", ""}});
  if (!choice.content.empty() || (choice.calls.empty() && choice.reasoning.empty()))
    blocks.push_back(json::object{{"type", "text"}, {"text", choice.content}});
  for (const ToolCall& call : choice.calls)
    blocks.push_back(
        json::object{{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(call.arguments)}});
  return blocks;
}

class MessagesFormat : public AnswerFormat {
 public:
  explicit MessagesFormat(AnswerHead head) : head_(std::move(head)) {}

  HttpResponse body(const std::vector<Choice>& choices, const Usage& usage, const json::object& extras) override {
    const Choice& choice = choices.front();
    json::object answer = message(content_json(choice), usage);
    answer["stop_reason"] = stop_reason(choice.finish);
    answer["stop_sequence"] = stop_sequence(choice);
    for (const auto& member : extras) answer[member.key()] = member.value();
    HttpResponse response;
    response.body = common::dump_json(answer);
    return response;
  }

  std::string begin(const Usage& so_far) override {
    const json::object start{{"type", "message_start"}, {"message", message({}, so_far)}};
    return named_frame("message_start", start) + ping();
  }

  std::string piece(int, const std::vector<Delta>& deltas, const std::vector<TokenLogprob>&,
                    const json::value&) override {
    std::string frames;
    for (const Delta& delta : deltas) write(delta, frames);
    return frames;
  }

  std::string finish(const Choice& choice, const std::vector<TokenLogprob>&, const json::object& extras) override {
    std::string frames;
    close_block(frames);
    stop_reason_ = stop_reason(choice.finish);
    stop_sequence_ = stop_sequence(choice);
    extras_ = extras;
    return frames;
  }

  std::string end(const Usage& usage) override {
    json::object delta{{"type", "message_delta"},
                       {"delta", {{"stop_reason", stop_reason_}, {"stop_sequence", stop_sequence_}}},
                       {"usage", usage_json(usage)}};
    for (const auto& member : extras_) delta[member.key()] = member.value();
    return named_frame("message_delta", delta) + named_frame("message_stop", json::object{{"type", "message_stop"}});
  }

  std::string ping() override { return named_frame("ping", json::object{{"type", "ping"}}); }

  std::string error(const ApiError& error) override {
    return "event: error\ndata: " + anthropic_refusal(error).body + "\n\n";
  }

  HttpResponse refusal(const ApiError& error) const override { return anthropic_refusal(error); }

 private:
  json::object message(json::array content, const Usage& usage) const {
    return {{"id", "msg_" + head_.id},       {"type", "message"},
            {"role", "assistant"},           {"model", head_.model},
            {"content", std::move(content)}, {"stop_reason", nullptr},
            {"stop_sequence", nullptr},      {"usage", usage_json(usage)}};
  }

  void write(const Delta& delta, std::string& frames) {
    const bool begins = delta.kind == Delta::Kind::kCallBegins;
    const bool continues = open_ && !begins && (delta.kind == kind_);
    if (!continues && !(open_ && kind_ == Delta::Kind::kCallBegins && delta.kind == Delta::Kind::kCallArguments))
      open_block(delta, frames);
    if (delta.text.empty()) return;
    json::object written;
    if (delta.kind == Delta::Kind::kContent) written = {{"type", "text_delta"}, {"text", delta.text}};
    if (delta.kind == Delta::Kind::kReasoning) written = {{"type", "thinking_delta"}, {"thinking", delta.text}};
    if (written.empty()) written = {{"type", "input_json_delta"}, {"partial_json", delta.text}};
    frames +=
        named_frame("content_block_delta",
                    json::object{{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(written)}});
  }

  void open_block(const Delta& delta, std::string& frames) {
    close_block(frames);
    json::object block{{"type", "text"}, {"text", ""}};
    if (delta.kind == Delta::Kind::kReasoning) block = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    if (delta.kind == Delta::Kind::kCallBegins)
      block = {{"type", "tool_use"}, {"id", delta.id}, {"name", delta.name}, {"input", json::object()}};
    kind_ = delta.kind;
    open_ = true;
    frames += named_frame(
        "content_block_start",
        json::object{{"type", "content_block_start"}, {"index", ++index_}, {"content_block", std::move(block)}});
  }

  void close_block(std::string& frames) {
    if (!open_) return;
    open_ = false;
    frames += named_frame("content_block_stop", json::object{{"type", "content_block_stop"}, {"index", index_}});
  }

  AnswerHead head_;
  int index_ = -1;     // of the newest block
  bool open_ = false;  // has begun and not stopped
  Delta::Kind kind_ = Delta::Kind::kContent;
  json::string stop_reason_;
  json::value stop_sequence_;
  json::object extras_;
};

}  // namespace

std::string anthropic_error(const ApiError& error) {
  std::string type = "api_error";
  switch (error.status) {
    case 401:
      type = "authentication_error";
      break;
    case 403:
      type = "permission_error";
      break;
    case 404:
      type = "not_found_error";
      break;
    case 413:
      type = "request_too_large";
      break;
    case 429:
      type = "rate_limit_error";
      break;
    case 503:
    case 529:
      type = "overloaded_error";
      break;
    default:
      if (error.status < 500) type = "invalid_request_error";
  }
  return common::dump_json(
      json::object{{"type", "error"}, {"error", json::object{{"type", type}, {"message", error.message}}}});
}

HttpResponse anthropic_refusal(const ApiError& error) {
  ApiError own = error;
  if (error.code == "queue_full" || error.code == "queue_timeout") own.status = 529;
  return error_answer(own, anthropic_error);
}

std::unique_ptr<AnswerFormat> messages_format(AnswerHead head) {
  return std::make_unique<MessagesFormat>(std::move(head));
}

}  // namespace colibri::server
