#include "text/answers/json_scanner.h"

#include "base/json.h"

namespace colibri::text {
namespace {

constexpr size_t kMaxWord = 400;  // digits of the longest double, and some

bool is_word_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
}

size_t digits(std::string_view text, size_t& pos) {
  const size_t start = pos;
  while (pos < text.size() && text[pos] >= '0' && text[pos] <= '9') ++pos;
  return pos - start;
}

bool is_number(std::string_view text) {
  size_t pos = text.starts_with('-') ? 1 : 0;
  const bool zero = pos < text.size() && text[pos] == '0';
  const size_t whole = digits(text, pos);
  if (whole == 0 || (zero && whole > 1)) return false;
  if (pos < text.size() && text[pos] == '.' && digits(text, ++pos) == 0) return false;
  if (pos < text.size() && (text[pos] == 'e' || text[pos] == 'E')) {
    ++pos;
    if (pos < text.size() && (text[pos] == '+' || text[pos] == '-')) ++pos;
    if (digits(text, pos) == 0) return false;
  }
  return pos == text.size();
}

}  // namespace

bool is_json_scalar(std::string_view word) {
  return word == "true" || word == "false" || word == "null" || is_number(word);
}

std::string_view without_blanks_around(std::string_view text) {
  text.remove_prefix(blanks_at_front(text));
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

size_t blanks_at_front(std::string_view text) {
  size_t count = 0;
  while (count < text.size() && is_blank(text[count])) ++count;
  return count;
}

JsonScanner::Step JsonScanner::open(char closer, State state) {
  if (closers_.size() == kMaxDepth) return Step::kBad;
  closers_ += closer;
  return go(state);
}

JsonScanner::Step JsonScanner::value_ended() {
  state_ = State::kAfterItem;
  return closers_.empty() ? Step::kDone : Step::kMore;
}

JsonScanner::Step JsonScanner::close(char c) {
  if (closers_.empty() || closers_.back() != c) return Step::kBad;
  closers_.pop_back();
  return value_ended();
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  if (c == '{') return open('}', State::kFirstKey);
  if (c == '[') return open(']', State::kFirstItem);
  if (c == '"') {
    is_key_ = false;
    return go(State::kString);
  }
  if (!is_word_byte(c)) return Step::kBad;
  word_.assign(1, c);
  return go(State::kWord);
}

JsonScanner::Step JsonScanner::after_item(char c) {
  if (c != ',') return close(c);
  return closers_.empty() ? Step::kBad : go(closers_.back() == '}' ? State::kKey : State::kValue);
}

JsonScanner::Step JsonScanner::string_byte(char c) {
  if (low_due_ && c != '\\') return Step::kBad;
  if (c == '\\') return go(State::kEscape);
  if (static_cast<unsigned char>(c) < 0x20) return Step::kBad;
  if (c != '"') return Step::kMore;
  return is_key_ ? go(State::kColon) : value_ended();
}

JsonScanner::Step JsonScanner::escape_byte(char c) {
  if (c == 'u') {
    unit_ = 0;
    hex_digits_ = 0;
    return go(State::kHex);
  }
  const bool known = std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
  return known && !low_due_ ? go(State::kString) : Step::kBad;
}

JsonScanner::Step JsonScanner::hex_digit(char c) {
  const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
  if (digit == std::string_view::npos) return Step::kBad;
  const uint32_t unit = unit_ << 4 | static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
  if (hex_digits_ == 3) {
    const bool low = unit >= 0xDC00 && unit < 0xE000;
    if (low != low_due_) return Step::kBad;
    low_due_ = unit >= 0xD800 && unit < 0xDC00;
    state_ = State::kString;
  }
  unit_ = unit;
  ++hex_digits_;
  return Step::kMore;
}

JsonScanner::Step JsonScanner::word_byte(char c) {
  if (is_word_byte(c) && word_.size() < kMaxWord) {
    word_ += c;
    return Step::kMore;
  }
  if (!is_json_scalar(word_)) return Step::kBad;
  if (closers_.empty()) return Step::kEnded;
  state_ = State::kAfterItem;
  return feed(c);
}

JsonScanner::Step JsonScanner::feed(char c) {
  switch (state_) {
    case State::kString:
      return string_byte(c);
    case State::kEscape:
      return escape_byte(c);
    case State::kHex:
      return hex_digit(c);
    case State::kWord:
      return word_byte(c);
    default:
      break;
  }
  if (is_blank(c)) return Step::kMore;
  switch (state_) {
    case State::kFirstItem:
      return c == ']' ? close(c) : begin_value(c);
    case State::kFirstKey:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::kKey:
      is_key_ = true;
      return c == '"' ? go(State::kString) : Step::kBad;
    case State::kColon:
      return c == ':' ? go(State::kValue) : Step::kBad;
    case State::kAfterItem:
      return after_item(c);
    default:
      return begin_value(c);
  }
}

JsonExtent json_extent(std::string_view text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.feed(text[i]);
    if (step == JsonScanner::Step::kDone) return {JsonExtent::kYes, i + 1};
    if (step == JsonScanner::Step::kEnded) return {JsonExtent::kYes, i};
    if (step == JsonScanner::Step::kBad) return {JsonExtent::kNo, 0};
  }
  return {JsonExtent::kPartial, 0};
}

bool is_json(std::string_view text) {
  text = without_blanks_around(text);
  if (is_json_scalar(text)) return true;
  const JsonExtent extent = json_extent(text);
  return extent.state == JsonExtent::kYes && extent.size == text.size();
}

std::string json_escaped(std::string_view text) {
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace colibri::text
