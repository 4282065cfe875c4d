// OpenAI's responses: https://platform.openai.com/docs/api-reference/responses. Named events with a sequence number,
// and no [DONE].
#include "answer_format.h"

namespace colibri::server {
namespace {

json::object usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

json::object text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", json::array()}, {"logprobs", json::array()}};
}

json::object reasoning_part(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

// One entry of "output".
struct Item {
  Delta::Kind kind = Delta::Kind::kContent;
  std::string id, call_id, name, text;
};

json::object item_json(const Item& item, std::string_view status) {
  json::array content;
  switch (item.kind) {
    case Delta::Kind::kContent:
      if (status != "in_progress") content.push_back(text_part(item.text));
      return {{"id", item.id},
              {"type", "message"},
              {"status", status},
              {"role", "assistant"},
              {"content", std::move(content)}};
    case Delta::Kind::kReasoning:
      if (status != "in_progress") content.push_back(reasoning_part(item.text));
      return {{"id", item.id}, {"type", "reasoning"}, {"summary", json::array()}, {"content", std::move(content)}};
    default:
      return {{"id", item.id},           {"type", "function_call"}, {"status", status},
              {"call_id", item.call_id}, {"name", item.name},       {"arguments", item.text}};
  }
}

class ResponsesFormat : public AnswerFormat {
 public:
  explicit ResponsesFormat(AnswerHead head) : head_(std::move(head)) {}

  HttpResponse body(const std::vector<Choice>& choices, const Usage& usage, const json::object& extras) override {
    const Choice& choice = choices.front();
    if (!choice.reasoning.empty()) add_item(Delta::Kind::kReasoning, choice.reasoning);
    if (!choice.content.empty() || choice.calls.empty()) add_item(Delta::Kind::kContent, choice.content);
    for (const ToolCall& call : choice.calls) {
      Item& item = add_item(Delta::Kind::kCallBegins, call.arguments);
      item.call_id = call.id;
      item.name = call.name;
    }
    cut_ = choice.finish == FinishReason::kLength;
    json::object answer = response(status());
    answer["usage"] = usage_json(usage);
    for (const auto& member : extras) answer[member.key()] = member.value();
    HttpResponse http;
    http.body = common::dump_json(answer);
    return http;
  }

  std::string begin(const Usage&) override {
    std::string frames = event("response.created", {{"response", response("in_progress")}});
    return frames += event("response.in_progress", {{"response", response("in_progress")}});
  }

  std::string piece(int, const std::vector<Delta>& deltas, const std::vector<TokenLogprob>&,
                    const json::value&) override {
    std::string frames;
    for (const Delta& delta : deltas) write(delta, frames);
    return frames;
  }

  std::string finish(const Choice& choice, const std::vector<TokenLogprob>&, const json::object& extras) override {
    std::string frames;
    cut_ = choice.finish == FinishReason::kLength;
    close_item(frames);
    extras_ = extras;
    return frames;
  }

  std::string end(const Usage& usage) override {
    json::object whole = response(status());
    whole["usage"] = usage_json(usage);
    for (const auto& member : extras_) whole[member.key()] = member.value();
    return event("response." + std::string(status()), {{"response", std::move(whole)}});
  }

  std::string error(const ApiError& error) override {
    json::object failed = response("failed");
    failed["error"] = {{"code", error.code}, {"message", error.message}};
    return event("response.failed", {{"response", std::move(failed)}});
  }

 private:
  const char* status() const { return cut_ ? "incomplete" : "completed"; }

  // Of the last one when the answer was cut: as far as it came.
  const char* item_status(size_t i) const {
    if (i + 1 < items_.size()) return "completed";
    return open_ ? "in_progress" : status();
  }

  json::object response(std::string_view status) const {
    json::array output;
    for (size_t i = 0; i < items_.size(); ++i) output.push_back(item_json(items_[i], item_status(i)));
    json::value details = nullptr;
    if (status == "incomplete") details = {{"reason", "max_output_tokens"}};
    json::object whole{{"id", "resp_" + head_.id},
                       {"object", "response"},
                       {"created_at", head_.created},
                       {"status", status},
                       {"error", nullptr},
                       {"incomplete_details", std::move(details)},
                       {"instructions", nullptr},
                       {"model", head_.model},
                       {"output", std::move(output)},
                       {"parallel_tool_calls", true},
                       {"tool_choice", "auto"},
                       {"tools", json::array()},
                       {"metadata", json::object()},
                       {"usage", nullptr}};
    for (const auto& member : head_.echo) whole[member.key()] = member.value();
    return whole;
  }

  std::string event(const std::string& name, json::object members) {
    json::object frame{{"type", name}, {"sequence_number", sequence_number_++}};
    for (auto& member : members) frame[member.key()] = std::move(member.value());
    return named_frame(name, frame);
  }

  // Of a part of the newest item.
  std::string part_event(const std::string& name, json::object members) {
    json::object all{{"item_id", items_.back().id}, {"output_index", items_.size() - 1}, {"content_index", 0}};
    for (auto& member : members) all[member.key()] = std::move(member.value());
    if (items_.back().kind == Delta::Kind::kCallBegins) all.erase("content_index");
    return event(name, std::move(all));
  }

  Item& add_item(Delta::Kind kind, std::string text) {
    const char* prefix = kind == Delta::Kind::kContent ? "msg_" : kind == Delta::Kind::kReasoning ? "rs_" : "fc_";
    Item item;
    item.kind = kind;
    item.id = prefix + head_.id + std::to_string(items_.size());
    item.text = std::move(text);
    return items_.emplace_back(std::move(item));
  }

  void write(const Delta& delta, std::string& frames) {
    const bool call = delta.kind == Delta::Kind::kCallBegins || delta.kind == Delta::Kind::kCallArguments;
    const auto kind = call ? Delta::Kind::kCallBegins : delta.kind;
    if (!open_ || items_.back().kind != kind || delta.kind == Delta::Kind::kCallBegins) open_item(kind, delta, frames);
    if (delta.text.empty()) return;
    items_.back().text += delta.text;
    frames += part_event(text_name() + ".delta", {{"delta", delta.text}});
  }

  // What the events of the newest item's text are called.
  std::string text_name() const {
    switch (items_.back().kind) {
      case Delta::Kind::kContent:
        return "response.output_text";
      case Delta::Kind::kReasoning:
        return "response.reasoning_text";
      default:
        return "response.function_call_arguments";
    }
  }

  void open_item(Delta::Kind kind, const Delta& delta, std::string& frames) {
    close_item(frames);
    Item& item = add_item(kind, {});
    item.call_id = delta.id;
    item.name = delta.name;
    open_ = true;
    frames += event("response.output_item.added",
                    {{"output_index", items_.size() - 1}, {"item", item_json(item, "in_progress")}});
    if (kind != Delta::Kind::kCallBegins) frames += part_event("response.content_part.added", {{"part", part_json()}});
  }

  json::object part_json() const {
    const Item& item = items_.back();
    return item.kind == Delta::Kind::kReasoning ? reasoning_part(item.text) : text_part(item.text);
  }

  void close_item(std::string& frames) {
    if (!open_) return;
    open_ = false;
    const Item& item = items_.back();
    const bool call = item.kind == Delta::Kind::kCallBegins;
    frames += part_event(text_name() + ".done", {{call ? "arguments" : "text", item.text}});
    if (!call) frames += part_event("response.content_part.done", {{"part", part_json()}});
    frames +=
        event("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", item_json(item, status())}});
  }

  AnswerHead head_;
  std::vector<Item> items_;
  bool open_ = false;  // the newest one may still grow
  bool cut_ = false;
  int64_t sequence_number_ = 0;
  json::object extras_;
};

}  // namespace

std::unique_ptr<AnswerFormat> responses_format(AnswerHead head) {
  return std::make_unique<ResponsesFormat>(std::move(head));
}

}  // namespace colibri::server
