// The reader of gpt-oss' answers: messages with a channel and perhaps a recipient, between special tokens.
//
//   <|start|>assistant<|channel|>CHANNEL to=RECIPIENT <|constrain|>json<|message|>BODY<|end|>
//
// Every part but <|message|> may be missing; the recipient may also stand in the role's part. The prompt ends with
// <|start|>assistant, so an answer begins inside a header.
#include <algorithm>
#include <array>

#include "text/answers/delta_sink.h"
#include "text/answers/json_arguments.h"
#include "text/answers/json_scanner.h"
#include "text/answers/pattern.h"

namespace colibri::text {
namespace {

constexpr std::string_view kStart = "<|start|>", kMessage = "<|message|>", kChannel = "<|channel|>";
constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", kStart, kChannel};
// What a header may begin with; anything else is text without a header.
constexpr std::array<std::string_view, 7> kHeaderBegins = {kStart,    kChannel,   kMessage, "<|constrain|>",
                                                           "<|end|>", "<|call|>", "to="};
constexpr size_t kMaxHeader = 1024;

std::string word_after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + mark.size());
  text.remove_prefix(blanks_at_front(text));
  return std::string(text.substr(0, text.find_first_of(" \t\r\n<")));
}

class HarmonyReader final : public FormatReader {
 public:
  explicit HarmonyReader(DeltaSink& sink)
      : sink_(sink),
        content_(sink, AnswerDelta::Kind::kContent, false),
        reasoning_(sink, AnswerDelta::Kind::kReasoning, true) {
    begin_as_prompt_ends(sink.options().prompt);
  }

  void read(std::string_view text, bool final) override {
    pending_ += text;
    taken_ = 0;
    final_ = final;
    while (step()) {
    }
    pending_.erase(0, taken_);
    if (!final) return;
    reasoning_.finish();
    content_.finish();
  }

 private:
  enum class Phase { kHeader, kContent, kReasoning, kCall, kArguments, kIgnored };

  std::string_view rest() const { return std::string_view(pending_).substr(taken_); }
  bool take(size_t size) {
    taken_ += size;
    return true;
  }
  bool take_all() {
    taken_ = pending_.size();
    return false;
  }

  // A prompt may end inside a message that is to be continued.
  void begin_as_prompt_ends(std::string_view prompt) {
    const size_t start = prompt.rfind(kStart);
    const std::string_view last = start == std::string_view::npos ? std::string_view() : prompt.substr(start);
    const size_t message = last.find(kMessage);
    const bool ended = last.find(kEnds[0]) != std::string_view::npos;
    if (message != std::string_view::npos && !ended) begin_body(last.substr(0, message));
  }

  bool step() {
    if (taken_ == pending_.size()) return false;
    switch (phase_) {
      case Phase::kHeader:
        return header_step();
      case Phase::kContent:
        return text_step(content_);
      case Phase::kReasoning:
        return text_step(reasoning_);
      case Phase::kArguments:
        return arguments_step();
      case Phase::kCall:
        return call_step();
      default:
        return take_all();
    }
  }

  bool header_step() {
    const std::string_view text = rest().substr(blanks_at_front(rest()));
    const auto is_header = [&](std::string_view begin) { return text.starts_with(begin); };
    const auto may_be = [&](std::string_view begin) { return begin.starts_with(text); };
    if (std::any_of(kHeaderBegins.begin(), kHeaderBegins.end(), is_header)) return whole_header();
    if (!final_ && std::any_of(kHeaderBegins.begin(), kHeaderBegins.end(), may_be)) return false;
    return cut_header(text);
  }

  // A header without an end: its markers are none of the text, any other beginning is.
  bool cut_header(std::string_view text) {
    if (text.starts_with("<|") && final_) return take_all();
    phase_ = Phase::kContent;
    content_.say(rest().substr(0, 1));
    return take(1);
  }

  bool whole_header() {
    const std::string_view header = rest().substr(0, kMaxHeader);
    const size_t message = header.find(kMessage);
    if (message == std::string_view::npos)
      return (final_ || header.size() == kMaxHeader) && cut_header(header.substr(blanks_at_front(header)));
    if (!begin_body(header.substr(0, message))) content_.say(header.substr(0, message + kMessage.size()));
    return take(message + kMessage.size());
  }

  // False when the header stands for a call that is not to be read: then it is part of the text.
  bool begin_body(std::string_view header) {
    const size_t start = header.rfind(kStart);  // what stands before it belongs to no message
    if (start != std::string_view::npos) header.remove_prefix(start);
    const std::string recipient = word_after(header, "to="), channel = word_after(header, kChannel);
    std::string_view name = recipient;
    const bool function = name.starts_with("functions.");
    if (function) name.remove_prefix(10);
    if (!name.empty() && (function || sink_.find_tool(name) != nullptr)) {
      phase_ = Phase::kContent;
      return sink_.options().calls && begin_call(name);
    }
    phase_ = channel == "analysis" ? Phase::kReasoning : Phase::kContent;
    (phase_ == Phase::kReasoning ? reasoning_ : content_).marker("\n\n");
    return true;
  }

  bool begin_call(std::string_view name) {
    name_ = name;
    phase_ = sink_.full() ? Phase::kIgnored : Phase::kCall;
    return true;
  }

  // Text up to what ends a message.
  bool text_step(AnswerText& out) {
    size_t end = rest().size();
    std::string_view mark;
    for (const std::string_view candidate : kEnds) {
      size_t at = rest().find(candidate);
      const bool whole = at != std::string_view::npos;
      if (!whole) at = rest().size() - (final_ ? 0 : beginning_at_end(rest(), candidate));
      if (at < end) {
        end = at;
        mark = whole ? candidate : std::string_view();
      }
    }
    out.say(rest().substr(0, end));
    take(end);
    if (mark.empty()) return false;
    if (mark != kStart && mark != kChannel) take(mark.size());
    phase_ = Phase::kHeader;
    return true;
  }

  // The beginning of a call's message: an object, or the end of it for a call without arguments; anything else is text.
  bool call_step() {
    const std::string_view text = rest().substr(blanks_at_front(rest()));
    const auto is = [&](std::string_view end) { return text.starts_with(end); };
    const auto may_be = [&](std::string_view end) { return end.starts_with(text); };
    const bool ended = std::any_of(kEnds.begin(), kEnds.end(), is);
    if (!ended && std::any_of(kEnds.begin(), kEnds.end(), may_be)) return final_ && take_all();
    if (!ended && text.front() != '{') {
      phase_ = Phase::kContent;
      return true;
    }
    content_.marker("\n\n");
    sink_.begin_call(name_, {}, IdStyle::kCall);
    phase_ = ended ? Phase::kContent : Phase::kArguments;
    arguments_ = std::make_unique<JsonArguments>();
    if (!ended) return true;
    sink_.arguments("{}");
    sink_.close_call();
    return true;
  }

  bool arguments_step() {
    std::string json;
    const ArgumentReader::Progress progress = arguments_->read(rest(), json);
    take(progress.taken);
    sink_.arguments(json);
    if (progress.state == ArgumentReader::State::kMore) return false;
    if (progress.state == ArgumentReader::State::kDone) {
      sink_.close_call();
    } else {
      content_.go_on();
    }
    phase_ = Phase::kContent;
    return true;
  }

  DeltaSink& sink_;
  AnswerText content_, reasoning_;
  Phase phase_ = Phase::kHeader;
  bool final_ = false;
  std::string pending_;
  size_t taken_ = 0;
  std::string name_;  // of the call whose message begins
  std::unique_ptr<JsonArguments> arguments_;
};

}  // namespace

std::unique_ptr<FormatReader> make_harmony_reader(DeltaSink& sink) { return std::make_unique<HarmonyReader>(sink); }

}  // namespace colibri::text
