#include "text/answers/tagged_arguments.h"

#include <algorithm>

#include "text/answers/json_scanner.h"

namespace colibri::text {
namespace {

std::string after_blanks(std::string_view pattern) { return "$~" + std::string(pattern); }

bool looks_like_json(std::string_view raw) {
  raw.remove_prefix(blanks_at_front(raw));
  return !raw.empty() && std::string_view("{[-0123456789").find(raw.front()) != std::string_view::npos;
}

std::string_view without_cdata(std::string_view raw) {
  constexpr std::string_view kOpen = "<![CDATA[", kClose = "]]>";
  const std::string_view inner = without_blanks_around(raw);
  if (!inner.starts_with(kOpen) || !inner.ends_with(kClose)) return raw;
  return inner.substr(kOpen.size(), inner.size() - kOpen.size() - kClose.size());
}

}  // namespace

TaggedArguments::TaggedArguments(const CallForm& form, const Json* schema)
    : form_(form), schema_(schema), closer_(without_blanks_around(form.parameter_tail)) {}

ArgumentReader::Progress TaggedArguments::read(std::string_view text, std::string& json) {
  size_t taken = 0;
  while (true) {
    const std::string_view rest = text.substr(taken);
    const bool was_in_value = in_value_;
    const Progress progress = was_in_value ? value(rest, json) : between(rest, json);
    taken += progress.taken;
    if (progress.state != State::kMore || in_value_ == was_in_value) return {progress.state, taken};
  }
}

ArgumentReader::Progress TaggedArguments::between(std::string_view text, std::string& json) {
  const Match head = match(after_blanks(form_.parameter_head), text);
  if (head.state == Match::kYes) {
    if (std::find(keys_.begin(), keys_.end(), head.key) != keys_.end()) return {State::kBad, 0};
    begin_value(head, json);
    return {State::kMore, head.size};
  }
  if (head.state == Match::kPartial) return {State::kMore, 0};
  const Match::State tail = goes_on(text);
  if (tail == Match::kYes) json += keys_.empty() ? "{}" : "}";
  return {tail == Match::kYes ? State::kDone : tail == Match::kPartial ? State::kMore : State::kBad, 0};
}

void TaggedArguments::begin_value(const Match& head, std::string& json) {
  json += (keys_.empty() ? "{\"" : ", \"") + json_escaped(head.key) + "\": ";
  keys_.push_back(head.key);
  in_value_ = at_start_ = true;
  settled_ = 0;
  types_ = types_of_parameter(schema_, head.key);
  if (!head.type.empty())
    types_.types =
        head.type == "true" || head.type == "string" ? ValueTypes::kString : ValueTypes::kAny & ~ValueTypes::kString;
}

Match::State TaggedArguments::goes_on(std::string_view text) const {
  Match::State state = match(after_blanks(form_.parameter_head), text).state;
  for (std::string_view parts = form_.tail; state == Match::kNo && !parts.empty();)
    state = match(after_blanks(next_part(parts)), text).state;
  return state;
}

TaggedArguments::End TaggedArguments::end_of_value(std::string_view text, size_t from) const {
  for (size_t at = text.find(closer_, from); at != std::string_view::npos; at = text.find(closer_, at + 1)) {
    const Match::State state = goes_on(text.substr(at + closer_.size()));
    if (state != Match::kNo) return {state, at};
  }
  return {Match::kPartial, text.size() - beginning_at_end(text, closer_)};
}

ArgumentReader::Progress TaggedArguments::value(std::string_view text, std::string& json) {
  return !types_.others() && !form_.cdata ? streamed_value(text, json) : held_value(text, json);
}

// The line feed before a closing tag is no part of the value where values stand on lines of their own.
ArgumentReader::Progress TaggedArguments::streamed_value(std::string_view text, std::string& json) {
  if (text.empty()) return {State::kMore, 0};
  size_t skipped = 0;
  if (at_start_) {
    json += '"';
    at_start_ = false;
    skipped = form_.lines && text.front() == '\n' ? 1 : 0;
  }
  const std::string_view rest = text.substr(skipped);
  const End end = end_of_value(rest, 0);
  const bool line_feed = form_.lines && end.size > 0 && rest[end.size - 1] == '\n';
  const size_t given = end.size - (line_feed ? 1 : 0);
  json += json_escaped(rest.substr(0, given));
  if (end.state != Match::kYes) return {State::kMore, skipped + given};
  json += '"';
  in_value_ = false;
  return {State::kMore, skipped + end.size + closer_.size()};
}

ArgumentReader::Progress TaggedArguments::held_value(std::string_view text, std::string& json) {
  const End end = end_of_value(text, settled_);
  if (end.state != Match::kYes) {
    settled_ = end.size;
    return {State::kMore, 0};
  }
  give_held(text.substr(0, end.size), true, json);
  in_value_ = false;
  return {State::kMore, end.size + closer_.size()};
}

std::string_view TaggedArguments::trimmed(std::string_view raw, bool whole) const {
  if (form_.lines && raw.starts_with('\n')) raw.remove_prefix(1);
  if (form_.lines && raw.ends_with('\n')) raw.remove_suffix(1);
  return form_.cdata && whole ? without_cdata(raw) : raw;
}

void TaggedArguments::give_held(std::string_view raw, bool whole, std::string& json) const {
  const std::string_view value = trimmed(raw, whole);
  if (whole) {
    json += value_as_json(value, types_);
  } else if (!types_.string() || (types_.others() && looks_like_json(value))) {
    json += value;
  } else {
    json += '"' + json_escaped(value);
  }
}

void TaggedArguments::finish(std::string_view text, std::string& json) {
  if (!in_value_) return;
  const End end = end_of_value(text, 0);
  const bool closed = text.substr(end.size).starts_with(closer_);
  if (types_.others() || form_.cdata) {
    give_held(text.substr(0, end.size), closed, json);
  } else if (closed) {
    json += '"';
  }
}

}  // namespace colibri::text
