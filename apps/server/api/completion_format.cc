// Legacy completions: https://platform.openai.com/docs/api-reference/completions, as lm-eval reads them.
#include <algorithm>
#include <cmath>

#include "answer_format.h"
#include "colibri/colibri.h"

namespace colibri::server {
namespace {

// A token's text as a key: what is no UTF-8 of its own is written "bytes:\xe2\x80", as OpenAI does.
std::string key_of(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.append("\\x") += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

// {text: log probability}, the token itself included. Two ids may share a text; no entry may be lost by that.
json::value top_json(const TokenLogprob& entry, const TokenTexts& texts) {
  if (std::isnan(entry.logprob)) return nullptr;
  json::object out;
  const auto add = [&](int32_t token, float logprob) {
    std::string key = key_of(texts.bytes_of(token));
    if (out.contains(key)) key = "token_id:" + std::to_string(token);
    out.emplace(key, logprob_json(logprob));
  };
  for (const auto& [token, logprob] : entry.top) add(token, logprob);
  const bool among =
      std::any_of(entry.top.begin(), entry.top.end(), [&](const auto& t) { return t.first == entry.token; });
  if (!among) add(entry.token, entry.logprob);
  return out;
}

class CompletionFormat : public AnswerFormat {
 public:
  CompletionFormat(AnswerHead head, const TokenTexts& texts)
      : head_(std::move(head)), texts_(texts), offsets_(head_.n_choices, 0) {}

  HttpResponse body(const std::vector<Choice>& choices, const Usage& usage, const json::object& extras) override {
    json::array written;
    for (const Choice& choice : choices)
      written.push_back(
          choice_json(choice.index, choice.content, choice.logprobs, json::value(openai_finish_reason(choice.finish))));
    json::object answer = envelope(std::move(written));
    answer["usage"] = openai_usage(usage);
    for (const auto& member : extras) answer[member.key()] = member.value();
    HttpResponse response;
    response.body = common::dump_json(answer);
    return response;
  }

  std::string begin(const Usage&) override { return {}; }

  std::string progress(const PromptProgress& progress) override {
    json::object frame = chunk(0, {}, {}, nullptr);
    frame["prompt_progress"] = {{"total", progress.total},
                                {"cache", progress.cached},
                                {"processed", progress.processed},
                                {"time_ms", progress.seconds * 1e3}};
    return data_frame(frame);
  }

  std::string piece(int choice, const std::vector<Delta>& deltas, const std::vector<TokenLogprob>& logprobs,
                    const json::value& timings) override {
    std::string text;
    for (const Delta& delta : deltas) text += delta.text;
    json::object frame = chunk(choice, text, logprobs, nullptr);
    if (!timings.is_null()) frame["timings"] = timings;
    return data_frame(frame);
  }

  std::string finish(const Choice& choice, const std::vector<TokenLogprob>& logprobs,
                     const json::object& extras) override {
    json::object frame = chunk(choice.index, {}, logprobs, json::value(openai_finish_reason(choice.finish)));
    for (const auto& member : extras) frame[member.key()] = member.value();
    return data_frame(frame);
  }

  std::string end(const Usage& usage) override {
    std::string frames;
    if (head_.include_usage) {
      json::object frame = envelope({});
      frame["usage"] = openai_usage(usage);
      frames += data_frame(frame);
    }
    return frames += "data: [DONE]\n\n";
  }

  std::string error(const ApiError& error) override { return "data: " + openai_error(error) + "\n\n"; }

 private:
  json::object envelope(json::array choices) const {
    return {{"id", "cmpl-" + head_.id},
            {"object", "text_completion"},
            {"created", head_.created},
            {"model", head_.model},
            {"system_fingerprint", std::string("colibri-") + colibri_version()},
            {"choices", std::move(choices)}};
  }

  json::object chunk(int choice, std::string_view text, const std::vector<TokenLogprob>& logprobs, json::value finish) {
    json::array choices;
    choices.push_back(choice_json(choice, text, logprobs, std::move(finish)));
    json::object frame = envelope(std::move(choices));
    if (head_.include_usage) frame["usage"] = nullptr;
    return frame;
  }

  json::object choice_json(int index, std::string_view text, const std::vector<TokenLogprob>& logprobs,
                           json::value finish) {
    json::value written = head_.logprobs ? logprobs_json(index, logprobs) : json::value(nullptr);
    return {{"index", index}, {"text", text}, {"logprobs", std::move(written)}, {"finish_reason", std::move(finish)}};
  }

  json::value logprobs_json(int index, const std::vector<TokenLogprob>& entries) {
    size_t& offset = offsets_[static_cast<size_t>(index)];
    json::array tokens, logprobs, top, offsets;
    for (const TokenLogprob& entry : entries) {
      tokens.push_back(json::value(key_of(texts_.bytes_of(entry.token))));
      logprobs.push_back(logprob_json(entry.logprob));
      top.push_back(top_json(entry, texts_));
      offsets.push_back(json::value(offset));
      offset += count_characters(entry.text);
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(top)},
            {"text_offset", std::move(offsets)}};
  }

  AnswerHead head_;
  const TokenTexts& texts_;
  std::vector<size_t> offsets_;  // characters of each choice's text that the entries so far stand for
};

}  // namespace

std::unique_ptr<AnswerFormat> completion_format(AnswerHead head, const TokenTexts& texts) {
  return std::make_unique<CompletionFormat>(std::move(head), texts);
}

}  // namespace colibri::server
