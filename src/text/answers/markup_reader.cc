// The reader of every format but harmony: text with reasoning and calls between markers.
#include <algorithm>
#include <vector>

#include "text/answers/arguments.h"
#include "text/answers/delta_sink.h"
#include "text/answers/json_scanner.h"
#include "text/answers/pattern.h"

namespace colibri::text {
namespace {

// What may begin where text stands.
struct Trigger {
  enum Kind { kReasoning, kFrameOpen, kFrameClose, kCall } kind;
  std::string literal;       // the text it begins with
  std::string pattern = {};  // kCall
  const CallForm* form = nullptr;
};

// A call whose arguments are JSON begins only where an object does.
std::string head_of(const CallForm& form) {
  const bool named = form.style == CallStyle::kJson && form.head.find("$J") == std::string_view::npos;
  return std::string(form.head) + (named ? "$~$!{" : "");
}

class MarkupReader final : public FormatReader {
 public:
  MarkupReader(const AnswerFormat& format, DeltaSink& sink)
      : format_(format),
        sink_(sink),
        content_(sink, AnswerDelta::Kind::kContent, false),
        reasoning_(sink, AnswerDelta::Kind::kReasoning, true) {
    add_triggers();
    const std::string& prompt = sink.options().prompt;
    if (prompt_ends_in_reasoning(format, prompt)) {
      phase_ = Phase::kReasoning;
    } else {
      framed_ = format.frame != nullptr && without_blanks_around(prompt).ends_with(format.frame->open);
    }
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
  enum class Phase { kContent, kReasoning, kArguments, kTail, kBetween, kIgnored };

  void add_triggers() {
    if (format_.reasoning != nullptr) triggers_.push_back({Trigger::kReasoning, std::string(format_.reasoning->open)});
    if (format_.frame != nullptr) {
      triggers_.push_back({Trigger::kFrameOpen, std::string(format_.frame->open)});
      triggers_.push_back({Trigger::kFrameClose, std::string(format_.frame->close)});
    }
    if (!sink_.options().calls) return;
    for (const CallForm* form : format_.calls) {
      if (!form->section_open.empty()) add_call(*form, std::string(form->section_open) + "$~" + head_of(*form));
      // The section's own marker is often forgotten; what marks a call by itself needs none.
      if (form->head.front() == '<' || form->section_open.empty()) add_call(*form, head_of(*form));
    }
  }

  void add_call(const CallForm& form, std::string pattern) {
    Trigger trigger{Trigger::kCall, std::string(literal_of(pattern)), {}, &form};
    trigger.pattern = std::move(pattern);
    triggers_.push_back(std::move(trigger));
  }

  std::string_view rest() const { return std::string_view(pending_).substr(taken_); }
  bool take(size_t size) {
    taken_ += size;
    return true;
  }
  bool take_all() {
    taken_ = pending_.size();
    return false;
  }

  // One step; false: nothing more can be done with what is there.
  bool step() {
    if (taken_ == pending_.size() && !(final_ && phase_ == Phase::kArguments)) return false;
    switch (phase_) {
      case Phase::kContent:
        return content_step();
      case Phase::kReasoning:
        return reasoning_step();
      case Phase::kArguments:
        return arguments_step();
      case Phase::kTail:
        return tail_step();
      case Phase::kBetween:
        return between_step();
      default:
        return take_all();
    }
  }

  // --- text ---

  bool may_begin(const Trigger& trigger, bool only_blanks_before) const {
    const bool at_start = only_blanks_before && content_.at_start();
    switch (trigger.kind) {
      case Trigger::kReasoning:
        return format_.reasoning->anywhere || at_start;
      case Trigger::kFrameOpen:
        return at_start && !framed_;
      case Trigger::kFrameClose:
        return framed_;
      default:
        return !trigger.form->bare || (only_blanks_before && !content_.said() && sink_.calls() == 0);
    }
  }

  // Where one of the triggers stands or may be about to; the size of the text when nowhere.
  size_t first_trigger(std::string_view text, bool calls_only) const {
    size_t first = text.size();
    for (const Trigger& trigger : triggers_) {
      if (calls_only && !(trigger.kind == Trigger::kCall && trigger.form->ends_reasoning)) continue;
      size_t at = text.find(trigger.literal);
      if (at == std::string_view::npos) at = text.size() - beginning_at_end(text, trigger.literal);
      if (at < first && may_begin(trigger, blanks_at_front(text) >= at)) first = at;
    }
    return first;
  }

  bool content_step() {
    const size_t at = first_trigger(rest(), false);
    content_.say(rest().substr(0, at));
    take(at);
    if (rest().empty()) return false;
    for (const Trigger& trigger : triggers_) {
      if (!may_begin(trigger, true)) continue;
      const Match::State state = begin(trigger);
      if (state == Match::kYes) return true;
      if (state == Match::kPartial && !final_) return false;
    }
    content_.say(rest().substr(0, 1));  // markers begin with ASCII
    return take(1);
  }

  Match::State begin(const Trigger& trigger) {
    if (trigger.kind == Trigger::kCall) return begin_call(trigger.pattern, *trigger.form);
    if (!rest().starts_with(trigger.literal)) return trigger.literal.starts_with(rest()) ? Match::kPartial : Match::kNo;
    take(trigger.literal.size());
    content_.marker();
    if (trigger.kind == Trigger::kReasoning) {
      reasoning_.marker();
      phase_ = Phase::kReasoning;
    }
    framed_ = trigger.kind == Trigger::kFrameOpen;
    return Match::kYes;
  }

  // --- reasoning ---

  bool reasoning_step() {
    const std::string_view open = format_.reasoning->open, close = format_.reasoning->close;
    const std::string_view text = rest().substr(blanks_at_front(rest()));
    if (reasoning_.at_start()) {  // some models open it once more
      if (text.starts_with(open)) return take(rest().size() - text.size() + open.size());
      if (open.starts_with(text) && !final_) return false;
    }
    size_t end = rest().find(close);
    if (end == std::string_view::npos) end = rest().size() - (final_ ? 0 : beginning_at_end(rest(), close));
    const size_t call = first_trigger(rest().substr(0, end), true);
    reasoning_.say(rest().substr(0, std::min(end, call)));
    if (call < end) return take(call), call_in_reasoning();
    take(end);
    if (!rest().starts_with(close)) return false;
    take(close.size());
    reasoning_.marker();
    content_.marker();
    framed_ = framed_ || (format_.frame != nullptr && format_.frame->open == close);
    phase_ = Phase::kContent;
    return true;
  }

  bool call_in_reasoning() {
    for (const Trigger& trigger : triggers_) {
      if (trigger.kind != Trigger::kCall) continue;
      const Match::State state = begin_call(trigger.pattern, *trigger.form);
      if (state == Match::kYes) return reasoning_.marker(), true;
      if (state == Match::kPartial && !final_) return false;
    }
    reasoning_.say(rest().substr(0, 1));
    return take(1);
  }

  // --- calls ---

  Match::State begin_call(std::string_view pattern, const CallForm& form) {
    const Match head = match(pattern, rest());
    if (head.state != Match::kYes) return head.state;
    const AnswerTool* tool = sink_.find_tool(head.name);
    if (form.bare && tool == nullptr) return Match::kNo;
    if (sink_.full()) {
      phase_ = Phase::kIgnored;
      return Match::kYes;
    }
    take(head.size);
    content_.marker();
    sink_.begin_call(head.name, head.id, form.ids);
    form_ = &form;
    arguments_ = make_argument_reader(form, tool != nullptr ? &tool->parameters : nullptr);
    phase_ = Phase::kArguments;
    if (!head.arguments.empty()) {
      sink_.arguments(head.arguments);
      close_call();
    }
    return Match::kYes;
  }

  void close_call() {
    sink_.close_call();
    parts_ = form_->tail;
    in_section_close_ = false;
    phase_ = Phase::kTail;
  }

  bool arguments_step() {
    std::string json;
    const ArgumentReader::Progress progress = arguments_->read(rest(), json);
    take(progress.taken);
    if (progress.state == ArgumentReader::State::kMore && final_) arguments_->finish(rest(), json);
    sink_.arguments(json);
    switch (progress.state) {
      case ArgumentReader::State::kDone:
        close_call();
        return true;
      case ArgumentReader::State::kBad:
        content_.go_on();
        phase_ = Phase::kContent;
        return true;
      default:
        if (final_) phase_ = Phase::kIgnored;
        return final_ && take_all();
    }
  }

  // The rest of a call or of a section; parts that are missing are not missed. What is cut is the marker's own.
  bool tail_step() {
    while (!parts_.empty()) {
      std::string_view parts = parts_;
      const std::string part = "$~" + std::string(next_part(parts));
      const Match tail = match(part, rest());
      if (tail.state == Match::kPartial) return final_ && take_all();
      take(tail.size);
      parts_ = parts;
    }
    const bool more = !in_section_close_ &&
                      (!form_->section_open.empty() || form_->bare || !without_blanks_around(form_->separator).empty());
    phase_ = more ? Phase::kBetween : Phase::kContent;
    return true;
  }

  bool between_step() {
    bool partial = false;
    const std::string head = "$~" + head_of(*form_);
    for (const std::string& pattern : {"$~" + std::string(form_->separator) + head, head}) {
      const Match::State state = begin_call(pattern, *form_);
      if (state == Match::kYes) return true;
      partial = partial || state == Match::kPartial;
    }
    if (partial && !final_) return false;
    for (std::string_view parts = form_->section_close; !parts.empty();) {
      const std::string_view from_here = parts;
      const Match::State state = match("$~" + std::string(next_part(parts)), rest()).state;
      if (state == Match::kNo) continue;
      if (state == Match::kPartial) return final_ && take_all();
      parts_ = from_here;
      in_section_close_ = true;
      phase_ = Phase::kTail;
      return true;
    }
    phase_ = Phase::kContent;
    return true;
  }

  const AnswerFormat& format_;
  DeltaSink& sink_;
  AnswerText content_, reasoning_;
  std::vector<Trigger> triggers_;
  Phase phase_ = Phase::kContent;
  bool framed_ = false;  // the frame around the text was opened
  bool final_ = false;
  std::string pending_;
  size_t taken_ = 0;  // of pending_

  const CallForm* form_ = nullptr;  // of the call that is read or was read last
  std::unique_ptr<ArgumentReader> arguments_;
  std::string_view parts_;  // of a tail or section_close, still to come
  bool in_section_close_ = false;
};

}  // namespace

std::unique_ptr<FormatReader> make_markup_reader(const AnswerFormat& format, DeltaSink& sink) {
  return std::make_unique<MarkupReader>(format, sink);
}

}  // namespace colibri::text
