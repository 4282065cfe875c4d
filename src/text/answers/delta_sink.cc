#include "text/answers/delta_sink.h"

#include <algorithm>

#include "text/answers/json_scanner.h"

namespace colibri::text {
void DeltaSink::text(AnswerDelta::Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (deltas_->empty() || deltas_->back().kind != kind) {
    deltas_->emplace_back();
    deltas_->back().kind = kind;
    if (kind == AnswerDelta::Kind::kArguments) deltas_->back().index = calls_ - 1;
  }
  deltas_->back().text += text;
}

void DeltaSink::begin_call(std::string_view name, std::string_view id, IdStyle style) {
  AnswerDelta delta;
  delta.kind = AnswerDelta::Kind::kCall;
  delta.index = calls_++;
  delta.name = name;
  delta.id = is_call_id(id, style) ? std::string(id) : made_call_id(options_.id_seed, delta.index, style);
  deltas_->push_back(std::move(delta));
}

void DeltaSink::arguments(std::string_view json) { text(AnswerDelta::Kind::kArguments, json); }

const AnswerTool* DeltaSink::find_tool(std::string_view name) const {
  const auto found = std::find_if(options_.tools.begin(), options_.tools.end(),
                                  [&](const AnswerTool& tool) { return tool.name == name; });
  return found != options_.tools.end() ? &*found : nullptr;
}

void AnswerText::say(std::string_view text) {
  blanks_ += text;
  if (without_blanks_around(text).empty()) return;
  const size_t size = blanks_.find_last_not_of(" \t\r\n") + 1;
  std::string said = blanks_.substr(0, size);
  blanks_.erase(0, size);
  if (after_marker_) {
    const size_t line_feed = said.substr(0, blanks_at_front(said)).rfind('\n');
    const std::string lines = line_feed == std::string::npos ? "" : said.substr(0, line_feed + 1);
    said.erase(0, lines.size());
    if (said_) said.insert(0, gap_.empty() ? lines : gap_);
  }
  gap_.clear();
  after_marker_ = false;
  said_ = true;
  sink_.text(kind_, said);
}

void AnswerText::marker(std::string_view separator) {
  if (said_ && !after_marker_) gap_ = blanks_.empty() ? separator : std::string_view(blanks_);
  blanks_.clear();
  after_marker_ = true;
}

void AnswerText::go_on() {
  if (!after_marker_) return;
  blanks_ = gap_;
  gap_.clear();
  after_marker_ = false;
}

void AnswerText::finish() {
  if (!after_marker_) sink_.text(kind_, blanks_);
  blanks_.clear();
}

}  // namespace colibri::text
