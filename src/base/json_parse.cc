// parse_json over Boost.JSON's event parser, which this file alone includes (header-only). Boost checks the grammar,
// UTF-8 and the depth; what json.h promises beyond that is done here: positions, duplicate keys, exact doubles, bare
// words.
#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <charconv>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>

#include "base/json.h"

namespace colibri {
namespace {

namespace bj = boost::json;

// A bare word that was replaced by the number 0.0 so that the parser accepts the text.
struct BareWord {
  size_t offset;  // where the number starts, sign included
  double value;
};

std::optional<double> number_of_word(std::string_view word) {
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// Finds bare words where a value may stand and overwrites them with a number and blanks of the same length.
class BareWords {
 public:
  explicit BareWords(std::string_view text) : text_(text) {
    if (text.find("Infinity") == std::string_view::npos && text.find("NaN") == std::string_view::npos) return;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') i = end_of_string(i);
      if (i < text.size() && (text[i] == 'I' || text[i] == 'N')) replace(i);
    }
    if (!words_.empty()) text_ = copy_;
  }

  std::string_view text() const { return text_; }
  const std::vector<BareWord>& words() const { return words_; }

 private:
  size_t end_of_string(size_t i) const {
    for (++i; i < text_.size() && text_[i] != '"'; ++i)
      if (text_[i] == '\\') ++i;
    return i;
  }

  // Only between separators: in "NaN5" or "1Infinity" the word must stay the error that it is.
  bool stands_alone(size_t begin, size_t end) const {
    constexpr std::string_view kBefore = " \t\r\n[,:", kAfter = " \t\r\n],}";
    return (begin == 0 || kBefore.find(text_[begin - 1]) != std::string_view::npos) &&
           (end >= text_.size() || kAfter.find(text_[end]) != std::string_view::npos);
  }

  void replace(size_t i) {
    const size_t length = text_[i] == 'I' ? 8 : 3;
    const size_t begin = i > 0 && text_[i - 1] == '-' ? i - 1 : i;
    const auto value = number_of_word(text_.substr(begin, i + length - begin));
    if (!value || !stands_alone(begin, i + length)) return;
    if (copy_.empty()) copy_ = text_;
    copy_.replace(i, length, std::string("0.0").append(length - 3, ' '));
    words_.push_back({begin, *value});
  }

  std::string_view text_;
  std::string copy_;
  std::vector<BareWord> words_;
};

const std::string* duplicate_by_sorting(const Json::Object& members) {
  using Entry = std::pair<size_t, const std::string*>;
  std::vector<Entry> entries;
  entries.reserve(members.size());
  for (const auto& [key, value] : members) entries.emplace_back(std::hash<std::string_view>()(key), &key);
  // Hash first, so that keys are compared only where hashes are equal; keys made to collide cost n log n compares.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.first != b.first ? a.first < b.first : *a.second < *b.second;
  });
  const auto equal = [](const Entry& a, const Entry& b) { return a.first == b.first && *a.second == *b.second; };
  const auto found = std::adjacent_find(entries.begin(), entries.end(), equal);
  return found == entries.end() ? nullptr : found->second;
}

// A key that occurs twice, or nullptr.
const std::string* find_duplicate(const Json::Object& members) {
  constexpr size_t kSmall = 12;
  if (members.size() > kSmall) return duplicate_by_sorting(members);
  for (size_t i = 0; i < members.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (members[i].first == members[j].first) return &members[i].first;
  return nullptr;
}

// {"__float__": "Infinity"}: how transformers writes numbers that JSON has no words for.
std::optional<double> wrapped_number(const Json::Object& members) {
  if (members.size() != 1 || members[0].first != "__float__" || !members[0].second.is_string()) return std::nullopt;
  return number_of_word(members[0].second.as_string());
}

// The event handler: builds the value on a stack of open containers.
class Builder {
 public:
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;

  Builder(const char* begin, const std::vector<BareWord>& words) : begin_(begin), words_(words) {}

  Json take() { return std::move(root_); }
  /// Why an event was refused; empty when the parser itself found the fault.
  const std::string& problem() const { return problem_; }

  bool on_document_begin(bj::error_code&) { return true; }
  bool on_document_end(bj::error_code&) { return true; }
  bool on_array_begin(bj::error_code&) { return open(Json::Array()); }
  bool on_object_begin(bj::error_code&) { return open(Json::Object()); }
  bool on_array_end(size_t, bj::error_code&) { return close(); }

  bool on_object_end(size_t, bj::error_code& ec) {
    const Json::Object& members = open_.back().value.as_object();
    if (const std::string* key = find_duplicate(members)) return refuse("duplicate key " + Json(*key).dump(), ec);
    if (const auto number = wrapped_number(members)) open_.back().value = *number;
    return close();
  }

  bool on_string_part(bj::string_view s, size_t, bj::error_code&) { return append(s); }
  bool on_string(bj::string_view s, size_t, bj::error_code&) {
    append(s);
    return add(Json(std::exchange(text_, {})));
  }
  bool on_key_part(bj::string_view s, size_t, bj::error_code&) { return append(s); }
  bool on_key(bj::string_view s, size_t, bj::error_code&) {
    append(s);
    open_.back().key = std::exchange(text_, {});
    return true;
  }

  bool on_number_part(bj::string_view, bj::error_code&) { return true; }  // never: the text comes in one piece
  bool on_int64(int64_t i, bj::string_view, bj::error_code&) { return add(Json(i)); }
  bool on_uint64(uint64_t u, bj::string_view, bj::error_code&) { return add(Json(u)); }
  bool on_double(double approximate, bj::string_view s, bj::error_code& ec);
  bool on_bool(bool b, bj::error_code&) { return add(Json(b)); }
  bool on_null(bj::error_code&) { return add(Json()); }
  bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
  bool on_comment(bj::string_view, bj::error_code&) { return true; }

 private:
  struct Open {
    Json value;
    std::string key;  // of the member that comes next
  };

  bool append(bj::string_view s) {
    text_.append(s.data(), s.size());
    return true;
  }

  bool open(Json container) {
    open_.push_back({std::move(container), {}});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  bool add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Open& top = open_.back(); top.value.is_array()) {
      top.value.as_array().push_back(std::move(value));
    } else {
      top.value.as_object().emplace_back(std::move(top.key), std::move(value));
    }
    return true;
  }

  bool refuse(std::string problem, bj::error_code& ec) {
    problem_ = std::move(problem);
    ec = bj::make_error_code(bj::error::exception);
    return false;
  }

  const char* begin_;
  const std::vector<BareWord>& words_;
  size_t next_word_ = 0;
  std::vector<Open> open_;
  std::string text_;  // parts of the string or key that is being read
  std::string problem_;
  Json root_;
};

// Boost's own value may be off by a unit in the last place, so the text is read again.
bool Builder::on_double(double approximate, bj::string_view s, bj::error_code& ec) {
  const auto offset = static_cast<size_t>(s.data() - begin_);
  if (next_word_ < words_.size() && words_[next_word_].offset == offset) return add(Json(words_[next_word_++].value));
  double exact = 0;
  const auto result = std::from_chars(s.data(), s.data() + s.size(), exact);
  if (result.ec == std::errc::result_out_of_range) {
    if (std::fabs(approximate) > 1) return refuse("number out of range", ec);
    exact = std::copysign(0.0, approximate);  // too small for a subnormal
  }
  return add(Json(exact));
}

std::string describe_byte(std::string_view text, size_t at) {
  if (at >= text.size()) return "the text ends too early";
  const auto c = static_cast<unsigned char>(text[at]);
  if (c > 0x20 && c < 0x7f) return std::string("unexpected '") + text[at] + "'";
  constexpr char kHex[] = "0123456789abcdef";
  const std::string hex = {'0', 'x', kHex[c >> 4], kHex[c & 15]};
  return (c >= 0x80 ? "invalid UTF-8 or unexpected byte " : "unexpected byte ") + hex;
}

// Whether the six characters before are an escape of the first half of a surrogate pair: \uD800 to \uDBFF.
bool follows_half_a_pair(std::string_view text, size_t at) {
  if (at < 6 || at > text.size() || text[at - 6] != '\\' || text[at - 5] != 'u') return false;
  constexpr std::string_view kD = "dD", kHalf = "89abAB";
  return kD.find(text[at - 4]) != std::string_view::npos && kHalf.find(text[at - 3]) != std::string_view::npos;
}

std::string describe(const bj::error_code& ec, std::string_view text, size_t at, int max_depth) {
  if (ec == bj::error::too_deep) return "nested deeper than " + std::to_string(max_depth) + " levels";
  if (ec == bj::error::exponent_overflow) return "number out of range";
  if (ec == bj::error::illegal_leading_surrogate || ec == bj::error::illegal_trailing_surrogate ||
      follows_half_a_pair(text, at))
    return "\\u escape of half a surrogate pair";
  if (ec == bj::error::expected_hex_digit) return "\\u escape without four hexadecimal digits";
  if (ec == bj::error::incomplete) return "the text ends too early";
  return describe_byte(text, at);
}

// "line 3, column 14: ", counted from 1; a column is a character.
std::string position(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view last = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto starts_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; };
  const auto column = 1 + std::count_if(last.begin(), last.end(), starts_character);
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

Error invalid(std::string_view text, size_t at, const std::string& why) {
  return {ErrorCode::kInvalidModel, "JSON " + position(text, at) + why};
}

Result<Json> parse(std::string_view text, JsonLimits limits) {
  const BareWords words(text);
  bj::parse_options options;
  options.max_depth = static_cast<size_t>(std::max(limits.max_depth, 0));
  bj::basic_parser<Builder> parser(options, words.text().data(), words.words());
  bj::error_code ec;
  const size_t at = parser.write_some(false, words.text().data(), text.size(), ec);
  const std::string& problem = parser.handler().problem();
  if (!problem.empty()) return invalid(text, at, problem);
  if (ec) return invalid(text, at, describe(ec, text, at, limits.max_depth));
  if (at < text.size()) return invalid(text, at, "text after the end of the value");
  return parser.handler().take();
}

}  // namespace

Result<Json> parse_json(std::string_view text, JsonLimits limits) {
  try {
    return parse(text, limits);
  } catch (const std::exception& e) {  // bad_alloc
    return Error{ErrorCode::kDoesNotFit, "JSON of " + std::to_string(text.size()) + " bytes: " + e.what()};
  }
}

}  // namespace colibri
