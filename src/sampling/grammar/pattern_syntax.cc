#include "sampling/grammar/pattern_syntax.h"

#include <algorithm>
#include <optional>
#include <string>

#include "text/utf8.h"

namespace colibri::sampling::grammar {
namespace {

constexpr int kMaxGroups = 32;       // inside each other
constexpr int kMaxRepeats = 10'000;  // of a quantifier

CharacterSet one(char32_t c) { return {{{c, c}}}; }
CharacterSet digits() { return {{{'0', '9'}}}; }
CharacterSet word_characters() { return {{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}}; }
CharacterSet spaces() {
  return {{{9, 13},
           {32, 32},
           {0xA0, 0xA0},
           {0x1680, 0x1680},
           {0x2000, 0x200A},
           {0x2028, 0x2029},
           {0x202F, 0x202F},
           {0x205F, 0x205F},
           {0x3000, 0x3000},
           {0xFEFF, 0xFEFF}}};
}

CharacterSet inverted(CharacterSet set) {
  set.invert();
  return set;
}

PatternNode node_of(CharacterSet set) {
  PatternNode node;
  node.kind = PatternNode::kSet;
  node.set = std::move(set);
  node.set.normalise();
  return node;
}

PatternNode repeat_of(PatternNode part, int min, int max) {
  PatternNode node;
  node.kind = PatternNode::kRepeat;
  node.parts.push_back(std::move(part));
  node.min = min;
  node.max = max;
  return node;
}

PatternNode any_text() { return repeat_of(node_of({{{0, kLastCharacter}}}), 0, -1); }

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<PatternNode> parse() {
    COLIBRI_ASSIGN(PatternNode node, choice(true));
    if (more()) return unsupported("an unopened )");
    return node;
  }

 private:
  bool more() const { return at_ < pattern_.size(); }
  bool next_is(char c) const { return more() && pattern_[at_] == c; }
  bool take(std::string_view text) {
    if (pattern_.substr(at_, text.size()) != text) return false;
    at_ += text.size();
    return true;
  }
  char32_t character() { return text::next_character(pattern_, at_); }
  Error unsupported(std::string_view what) const {
    return {ErrorCode::kUsage, std::string(what) + " (at byte " + std::to_string(at_) + ") is not supported"};
  }

  Result<PatternNode> choice(bool whole) {
    PatternNode node;
    node.kind = PatternNode::kChoice;
    do {
      COLIBRI_ASSIGN(PatternNode part, sequence(whole));
      node.parts.push_back(std::move(part));
    } while (take("|"));
    return node;
  }

  Result<PatternNode> sequence(bool whole) {
    PatternNode node;
    bool open_end = true;
    if (whole && !take("^")) node.parts.push_back(any_text());
    while (more() && !next_is('|') && !next_is(')')) {
      if (whole && take("$")) {
        if (more() && !next_is('|')) return unsupported("a $ that is not at the end");
        open_end = false;
        break;
      }
      COLIBRI_ASSIGN(PatternNode part, quantified());
      node.parts.push_back(std::move(part));
    }
    if (whole && open_end) node.parts.push_back(any_text());
    return node;
  }

  Result<PatternNode> quantified() {
    COLIBRI_ASSIGN(PatternNode part, atom());
    int min = 1, max = 1;
    if (take("*")) {
      min = 0, max = -1;
    } else if (take("+")) {
      max = -1;
    } else if (take("?")) {
      min = 0;
    } else if (take("{")) {
      COLIBRI_TRY(counts(min, max));
    } else {
      return part;
    }
    take("?");  // lazy: the same strings
    if (next_is('*') || next_is('+') || next_is('?') || next_is('{'))
      return unsupported("a quantifier of a quantifier");
    return repeat_of(std::move(part), min, max);
  }

  std::optional<int> number() {
    if (!more() || pattern_[at_] < '0' || pattern_[at_] > '9') return std::nullopt;
    int n = 0;
    for (; more() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_)
      n = std::min(n * 10 + (pattern_[at_] - '0'), kMaxRepeats + 1);
    return n;
  }

  Status counts(int& min, int& max) {
    const std::optional<int> first = number();
    if (!first) return unsupported("a { without a number");
    min = max = *first;
    if (take(",")) max = number().value_or(-1);
    if (!take("}")) return unsupported("a { without its }");
    if (min > kMaxRepeats || max > kMaxRepeats) return unsupported("a count above " + std::to_string(kMaxRepeats));
    if (max >= 0 && max < min) return unsupported("a count whose end is below its beginning");
    return {};
  }

  Result<PatternNode> atom() {
    if (take("(")) return group();
    if (take("[")) {
      COLIBRI_ASSIGN(CharacterSet set, bracket());
      return node_of(std::move(set));
    }
    if (take(".")) return node_of(inverted({{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}}));
    if (take("\\")) {
      COLIBRI_ASSIGN(CharacterSet set, escape(false));
      return node_of(std::move(set));
    }
    for (const char c : std::string_view("*+?{^$"))
      if (next_is(c)) return unsupported(std::string(1, c) + " here");
    return node_of(one(character()));
  }

  Result<PatternNode> group() {
    if (next_is('?') && !take("?:")) return unsupported("a group that begins with (?");
    if (++depth_ > kMaxGroups) return unsupported("more than " + std::to_string(kMaxGroups) + " groups in each other");
    COLIBRI_ASSIGN(PatternNode node, choice(false));
    --depth_;
    if (!take(")")) return unsupported("a ( without its )");
    return node;
  }

  Result<CharacterSet> bracket() {
    CharacterSet set;
    const bool negated = take("^");
    while (!take("]")) {
      if (!more()) return unsupported("a [ without its ]");
      COLIBRI_ASSIGN(const CharacterSet low, member());
      const bool is_range = next_is('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) {
        set.add(low);
        continue;
      }
      ++at_;
      COLIBRI_ASSIGN(const CharacterSet high, member());
      if (!single(low) || !single(high) || low.ranges[0].first > high.ranges[0].first)
        return unsupported("this range of characters");
      set.add(low.ranges[0].first, high.ranges[0].first);
    }
    set.normalise();
    if (negated) set.invert();
    return set;
  }

  static bool single(const CharacterSet& set) {
    return set.ranges.size() == 1 && set.ranges[0].first == set.ranges[0].second;
  }

  Result<CharacterSet> member() {
    if (take("\\")) return escape(true);
    return one(character());
  }

  // Behind a backslash.
  Result<CharacterSet> escape(bool in_bracket) {
    if (!more()) return unsupported("a \\ at the end");
    const char32_t c = character();
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return inverted(digits());
      case 'w':
        return word_characters();
      case 'W':
        return inverted(word_characters());
      case 's':
        return spaces();
      case 'S':
        return inverted(spaces());
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return code(2);
      case 'u':
        return code(4);
      default:
        break;
    }
    if (c == 'b' && in_bracket) return one('\b');
    const bool is_letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (is_letter) return unsupported(std::string("\\") + static_cast<char>(c));
    return one(c);
  }

  Result<CharacterSet> code(int n_digits) {
    char32_t value = 0;
    for (int i = 0; i < n_digits; ++i) {
      const char c = more() ? pattern_[at_] : ' ';
      const size_t digit = std::string_view("0123456789abcdef0123456789ABCDEF").find(c);
      if (digit == std::string_view::npos) return unsupported("a \\x or \\u without its digits");
      value = value * 16 + static_cast<char32_t>(digit % 16);
      ++at_;
    }
    if (value >= 0xD800 && value < 0xE000) return unsupported("half of a surrogate pair");
    return one(value);
  }

  std::string_view pattern_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

void CharacterSet::normalise() {
  std::sort(ranges.begin(), ranges.end());
  size_t n = 0;
  for (const auto& range : ranges) {
    if (n > 0 && range.first <= ranges[n - 1].second + 1) {
      ranges[n - 1].second = std::max(ranges[n - 1].second, range.second);
    } else {
      ranges[n++] = range;
    }
  }
  ranges.resize(n);
}

void CharacterSet::invert() {
  normalise();
  std::vector<std::pair<char32_t, char32_t>> gaps;
  char32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) gaps.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= kLastCharacter) gaps.emplace_back(next, kLastCharacter);
  ranges = std::move(gaps);
}

Result<PatternNode> parse_pattern(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace colibri::sampling::grammar
