#include "text/answers/loose_arguments.h"

#include <algorithm>

#include "text/answers/json_scanner.h"
#include "text/answers/pattern.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

using State = ArgumentReader::State;
using Progress = ArgumentReader::Progress;

constexpr std::string_view kGemmaQuote = "<|\"|>";
constexpr size_t kMaxWord = 400;

bool is_word_byte(char c) {
  return static_cast<unsigned char>(c) > ' ' && std::string_view("<>{}[]()\"'=,:|\\").find(c) == std::string_view::npos;
}

std::string_view json_word(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return word;
}

int64_t hex_value(std::string_view digits) {
  int64_t value = 0;
  for (const char c : digits) {
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return -1;
    value = value << 4 | static_cast<int64_t>(digit < 16 ? digit : digit - 6);
  }
  return value;
}

size_t hex_digits_of(char kind) { return kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0; }

std::string character(int64_t code) {
  std::string out;
  const bool scalar = code >= 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  append_utf8(scalar ? static_cast<char32_t>(code) : U'\uFFFD', out);
  return out;
}

// An escape of one letter as the character it stands for; DEL when it is none.
char simple_escape(char c) {
  constexpr std::string_view kLetters = "ntrbfav0\\'\"/", kCharacters{"\n\t\r\b\f\a\v\0\\'\"/", 12};
  const size_t at = kLetters.find(c);
  return at == std::string_view::npos ? '\x7f' : kCharacters[at];
}

// Python's escapes, and JSON's pair of two for one character. `text` begins with a backslash.
Progress read_escape(std::string_view text, std::string& meant) {
  if (text.size() < 2) return {State::kMore, 0};
  const size_t digits = hex_digits_of(text[1]);
  const size_t size = 2 + digits;
  if (text.size() < size) return {State::kMore, 0};
  if (digits > 0) {
    const int64_t code = hex_value(text.substr(2, digits));
    if (code < 0) return {State::kBad, 0};
    const bool high = text[1] == 'u' && code >= 0xD800 && code < 0xDC00;
    if (high && text.size() < size + 6) return {State::kMore, 0};
    const int64_t low = high && text.substr(size, 2) == "\\u" ? hex_value(text.substr(size + 2, 4)) : -1;
    const bool pair = low >= 0xDC00 && low < 0xE000;
    meant = character(pair ? 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00)) : code);
    return {State::kMore, size + (pair ? 6 : 0)};
  }
  const char c = simple_escape(text[1]);
  if (c != '\x7f') {
    meant.assign(1, c);
  } else if (text[1] != '\n') {  // a line that goes on
    meant = text.substr(0, 2);   // none: both are meant
  }
  return {State::kMore, size};
}

}  // namespace

Progress LooseArguments::read(std::string_view text, std::string& json) {
  size_t taken = 0;
  if (!begun_) json += '{';
  begun_ = true;
  while (true) {
    if (expect_ != Expect::kInString) taken += blanks_at_front(text.substr(taken));
    if (taken == text.size()) return {State::kMore, taken};
    const Progress progress = step(text.substr(taken), json);
    taken += progress.taken;
    if (progress.state != State::kMore || progress.taken == 0) return {progress.state, taken};
  }
}

Progress LooseArguments::step(std::string_view text, std::string& json) {
  switch (expect_) {
    case Expect::kFirstKey:
    case Expect::kKey:
      return is_closer(text.front()) ? close(json) : key(text, json);
    case Expect::kColon:
      return colon(text.front(), json);
    case Expect::kFirstValue:
    case Expect::kValue:
      return levels_.back().what == Open::kList && is_closer(text.front()) ? close(json) : value(text, json);
    case Expect::kComma:
      return comma(text, json);
    default:
      return string(text, json);
  }
}

bool LooseArguments::is_closer(char c) const {
  if (levels_.size() == 1) return c == (python_ ? ')' : '}');
  return c == levels_.back().closer;
}

Progress LooseArguments::close(std::string& json) {
  json += levels_.back().what == Open::kList ? ']' : '}';
  levels_.pop_back();
  expect_ = Expect::kComma;
  return {levels_.empty() ? State::kDone : State::kMore, 1};
}

Progress LooseArguments::open(Open what, char closer, char bracket, std::string& json) {
  if (levels_.size() == kMaxDepth) return {State::kBad, 0};
  levels_.push_back({what, closer, {}});
  json += bracket;
  expect_ = what == Open::kList ? Expect::kFirstValue : Expect::kFirstKey;
  return {State::kMore, 1};
}

// A comma is written when what follows it is there, since Python allows one before a closer.
Progress LooseArguments::name_key(std::string_view name, size_t taken, std::string& json) {
  std::vector<std::string>& keys = levels_.back().keys;
  if (std::find(keys.begin(), keys.end(), name) != keys.end()) return {State::kBad, 0};
  json += (keys.empty() ? "\"" : ", \"") + json_escaped(name) + "\": ";
  keys.emplace_back(name);
  expect_ = Expect::kColon;
  return {State::kMore, taken};
}

Progress LooseArguments::key(std::string_view text, std::string& json) {
  const bool quoted = python_ ? levels_.back().what == Open::kObject : text.front() == '<';
  if (quoted) return quoted_key(text.substr(0, kMaxWord), json);
  size_t size = 0;
  while (size < text.size() && size <= kMaxWord && is_word_byte(text[size])) ++size;
  if (size == 0 || size > kMaxWord) return {State::kBad, 0};
  return size == text.size() ? Progress{State::kMore, 0} : name_key(text.substr(0, size), size, json);
}

// Taken only when it is whole, so that nothing of it is lost when it is none.
Progress LooseArguments::quoted_key(std::string_view text, std::string& json) {
  const State unfinished = text.size() == kMaxWord ? State::kBad : State::kMore;
  Progress progress = opening_quote(text);
  if (progress.taken == 0) return {progress.state == State::kMore ? unfinished : progress.state, 0};
  std::string name;
  for (size_t at = progress.taken; at < text.size(); at += progress.taken) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(quote_)) return name_key(name, at + quote_.size(), json);
    std::string meant(1, rest.front());
    progress = python_ && rest.front() == '\\' ? read_escape(rest, meant) : Progress{State::kMore, 1};
    if (progress.state == State::kBad) return progress;
    if (progress.taken == 0) break;
    name += meant;
  }
  return {unfinished, 0};
}

Progress LooseArguments::colon(char c, std::string& /*json*/) {
  const char wanted = python_ && levels_.size() == 1 ? '=' : ':';
  if (c != wanted) return {State::kBad, 0};
  expect_ = Expect::kFirstValue;
  return {State::kMore, 1};
}

Progress LooseArguments::comma(std::string_view text, std::string& json) {
  if (is_closer(text.front())) return close(json);
  if (text.front() != ',') return {State::kBad, 0};
  expect_ = levels_.back().what == Open::kList ? Expect::kValue : Expect::kKey;
  return {State::kMore, 1};
}

Progress LooseArguments::value(std::string_view text, std::string& json) {
  const bool after_item = levels_.back().what == Open::kList && expect_ == Expect::kValue;
  const std::string before = after_item ? ", " : "";
  const char c = text.front();
  std::string piece;
  Progress progress{State::kBad, 0};
  if (c == '{') {
    progress = open(Open::kObject, '}', '{', piece);
  } else if (c == '[' || (c == '(' && python_)) {
    progress = open(Open::kList, c == '[' ? ']' : ')', '[', piece);
  } else if (python_ ? c == '"' || c == '\'' : c == '<') {
    progress = open_string(text, piece);
  } else {
    progress = word(text, piece);
  }
  if (progress.taken > 0) json += before + piece;
  return progress;
}

Progress LooseArguments::word(std::string_view text, std::string& json) {
  size_t size = 0;
  while (size < text.size() && size <= kMaxWord && is_word_byte(text[size])) ++size;
  if (size == text.size() && size <= kMaxWord) return {State::kMore, 0};
  const std::string_view word = json_word(text.substr(0, size));
  if (!is_json_scalar(word)) return {State::kBad, 0};
  json += word;
  expect_ = Expect::kComma;
  return {State::kMore, size};
}

Progress LooseArguments::opening_quote(std::string_view text) {
  const std::string_view quote = python_ ? text.substr(0, 1) : kGemmaQuote;
  if (python_ && quote != "\"" && quote != "'") return {State::kBad, 0};
  if (!text.starts_with(quote)) return {quote.starts_with(text) ? State::kMore : State::kBad, 0};
  quote_ = quote;
  return {State::kMore, quote_.size()};
}

Progress LooseArguments::open_string(std::string_view text, std::string& json) {
  const Progress progress = opening_quote(text);
  if (progress.taken == 0) return progress;
  json += '"';
  expect_ = Expect::kInString;
  return progress;
}

Progress LooseArguments::string(std::string_view text, std::string& json) {
  size_t plain = text.find(quote_);
  if (plain == std::string_view::npos) plain = text.size() - beginning_at_end(text, quote_);
  if (python_) plain = std::min(plain, text.find('\\'));
  if (plain > 0) {
    json += json_escaped(text.substr(0, plain));
    return {State::kMore, plain};
  }
  if (python_ && text.front() == '\\') {
    std::string meant;
    const Progress progress = read_escape(text, meant);
    json += json_escaped(meant);
    return progress;
  }
  if (!text.starts_with(quote_)) return {State::kMore, 0};
  json += '"';
  expect_ = Expect::kComma;
  return {State::kMore, quote_.size()};
}

// A string that is cut keeps what is certain; a word that is cut stands as it is when it is one.
void LooseArguments::finish(std::string_view text, std::string& json) {
  if (expect_ != Expect::kFirstValue && expect_ != Expect::kValue) return;
  const std::string_view word = json_word(without_blanks_around(text));
  const bool after_item = levels_.back().what == Open::kList && expect_ == Expect::kValue;
  if (is_json_scalar(word)) json += (after_item ? ", " : "") + std::string(word);
}

}  // namespace colibri::text
