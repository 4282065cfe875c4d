#include "text/oniguruma.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

constexpr int kMaxDepth = 32;

// Items of a bracket. PCRE2's own \s has U+180E too, its \w lacks marks, connectors and enclosed letters; Oniguruma's
// \w has those numbers that are in Latin-1.
constexpr std::string_view kSpace =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x00-\x08\x0E-\x1F\x21-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E})"
    R"(\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr std::string_view kHex = "0-9A-Fa-f";
constexpr std::string_view kMoreWord =
    R"(\xB2\xB3\xB9\xBC-\xBE\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kAnything = "(?s:.)";

std::string concat(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out += part;
  return out;
}

std::string bracket(std::string_view items, bool negated = false) { return concat({negated ? "[^" : "[", items, "]"}); }

std::string hexadecimal(char32_t value) {
  std::string out;
  for (; value != 0; value /= 16) out.insert(out.begin(), "0123456789ABCDEF"[value % 16]);
  return out;
}

bool is_alnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A union of plain items, of which PCRE2 can make one bracket, and of expressions that match one character each.
struct CharacterSet {
  std::string items;
  std::vector<std::string> others;

  std::string expression() const {
    if (others.empty()) return items.empty() ? "(?!)" : bracket(items);
    std::string out = items.empty() ? "(?:(?!)" : concat({"(?:", bracket(items)});
    for (const std::string& other : others) out += "|" + other;
    return out + ")";
  }
};

class Translator {
 public:
  Translator(std::string_view pattern, bool with_additions) : in_(pattern), with_additions_(with_additions) {}

  Result<std::string> run() {
    while (!at_end()) COLIBRI_TRY(element());
    if (!groups_.empty()) return invalid("a group without its )");
    return std::move(out_);
  }

 private:
  /// The characters of \p{name}: a general category, or a script (which PCRE2 would read as script extensions).
  std::string property_items(std::string_view name) const {
    const bool is_script = name.size() > 2 && name != "Any";
    std::string out = concat({"\\p{", is_script ? "sc:" : "", name, "}"});
    for (const auto& [first, last, property] : kUnicodeAdditions) {
      if (!with_additions_ || (property != name && property.substr(0, 1) != name)) continue;
      out += concat({"\\x{", hexadecimal(first), "}-\\x{", hexadecimal(last), "}"});
    }
    return out;
  }

  std::string word_items() const {
    return concat({property_items("L"), property_items("M"), property_items("Nd"), property_items("Nl"),
                   property_items("Pc"), kMoreWord});
  }

  Status element() {
    const char c = peek();
    if (c == '(') return open_group();
    if (c == ')') return close_group();
    if (c == '{') return brace();
    if (c == '|' || c == '?' || c == '*' || c == '+') return copy(1);
    atom_ = out_.size();
    if (c == '[') {
      ++pos_;
      COLIBRI_ASSIGN(const std::string set, character_set(0));
      out_ += set;
      return {};
    }
    if (c == '\\') return escape();
    if (c == ']' || c == '}') out_ += '\\';
    size_t end = pos_;
    next_character(in_, end);
    return copy(end - pos_);
  }

  Status open_group() {
    if (groups_.size() >= kMaxDepth) return unsupported("groups nested deeper than 32");
    groups_.push_back(out_.size());
    if (rest().substr(0, 2) == "(*") return unsupported("(*");
    if (rest().substr(0, 2) != "(?") return copy(1);
    for (const std::string_view prefix : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (rest().substr(0, prefix.size()) == prefix) return copy(prefix.size());
    }
    return rest().substr(0, 3) == "(?<" ? named_group() : options();
  }

  Status named_group() {
    const size_t end = rest().find('>');
    if (end == std::string_view::npos) return invalid("a group name without its >");
    return copy(end + 1);
  }

  /// (?i) (?i:...) (?m-i:...): m is what PCRE2 calls s.
  Status options() {
    size_t end = 2;
    std::string letters;
    for (; end < rest().size() && (rest()[end] == 'i' || rest()[end] == 'm' || rest()[end] == '-'); ++end) {
      letters += rest()[end] == 'm' ? 's' : rest()[end];
    }
    if (end >= rest().size() || letters.empty() || (rest()[end] != ':' && rest()[end] != ')')) {
      return unsupported(std::string(rest().substr(0, 4)));
    }
    out_ += "(?" + letters;
    pos_ += end;
    return peek() == ')' ? close_group() : copy(1);
  }

  Status close_group() {
    if (groups_.empty()) return invalid("a ) without its group");
    atom_ = groups_.back();
    groups_.pop_back();
    return copy(1);
  }

  /// {n}, {n,}, {,m}, {n,m}, or a brace that means itself. x{2}+ and x{2}? repeat x{2}; they are not possessive or
  /// lazy.
  Status brace() {
    size_t i = 1;
    const auto number = [&] {
      const size_t start = i;
      while (i < rest().size() && is_digit(rest()[i])) ++i;
      return std::string(rest().substr(start, i - start));
    };
    const std::string least = number();
    const bool comma = i < rest().size() && rest()[i] == ',';
    if (comma) ++i;
    const std::string most = comma ? number() : least;
    if (i >= rest().size() || rest()[i] != '}' || (least.empty() && most.empty())) {
      atom_ = out_.size();
      out_ += '\\';
      return copy(1);
    }
    pos_ += i + 1;
    out_ += concat({"{", least.empty() ? "0" : least, comma ? "," : "", comma ? most : "", "}"});
    const bool lazy_range = peek() == '?' && comma;
    if (peek() == '+' || peek() == '*' || (peek() == '?' && !lazy_range)) {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
    return {};
  }

  Status escape() {
    if (rest().size() < 2) return invalid("a pattern that ends in \\");
    const char c = rest()[1];
    switch (c) {
      case 's':
        return put(2, bracket(kSpace));
      case 'S':
        return put(2, bracket(kSpace, true));
      case 'w':
        return put(2, bracket(word_items()));
      case 'W':
        return put(2, bracket(word_items(), true));
      case 'h':
        return put(2, bracket(kHex));
      case 'H':
        return put(2, bracket(kHex, true));
      case 'd':
        return put(2, bracket(property_items("Nd")));
      case 'D':
        return put(2, bracket(property_items("Nd"), true));
      case 'O':
        return put(2, std::string(kAnything));
      case 'N':
        return put(2, "[^\\n]");
      case 'b':
        return put(2, word_border("(?!", "(?="));
      case 'B':
        return put(2, word_border("(?=", "(?!"));
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'R':
        return copy(2);
      default:
        break;
    }
    if (c == 'p' || c == 'P') {
      COLIBRI_ASSIGN(const Property property, read_property());
      out_ += bracket(property.items, property.negated);
      return {};
    }
    COLIBRI_ASSIGN(const std::string text, character_escape());
    out_ += text;
    return {};
  }

  /// `unlike`, `like`: the look-aheads after a word character and after anything else.
  std::string word_border(std::string_view unlike, std::string_view like) const {
    const std::string word = bracket(word_items());
    return concat({"(?:(?<=", word, ")", unlike, word, ")|(?<!", word, ")", like, word, "))"});
  }

  /// An escape that means one character, the same inside brackets and outside.
  Result<std::string> character_escape() {
    const char c = rest()[1];
    if (c == 'x' || c == 'u') return code_point();
    if (c == 'v') return take(2, "\\x0B");
    if (c == 'n' || c == 't' || c == 'r' || c == 'f' || c == 'a' || c == 'e')
      return take(2, std::string(rest().substr(0, 2)));
    if (is_alnum(c) || static_cast<unsigned char>(c) >= 0x80) return unsupported(std::string(rest().substr(0, 2)));
    return take(2, std::string(rest().substr(0, 2)));
  }

  struct Property {
    std::string items;
    bool negated;
  };

  /// \p{name}, \P{name}, \p{^name}.
  Result<Property> read_property() {
    const size_t end = rest().find('}');
    if (rest().size() < 4 || rest()[2] != '{' || end == std::string_view::npos) return invalid("\\p without {name}");
    std::string_view name = rest().substr(3, end - 3);
    const bool caret = name.substr(0, 1) == "^";
    if (caret) name.remove_prefix(1);
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return is_alnum(c) || c == '_'; });
    if (name.empty() || !plain) return invalid(std::string(rest().substr(0, end + 1)));
    Property property{property_items(name), (rest()[1] == 'P') != caret};
    pos_ += end + 1;
    return property;
  }

  /// \xHH, \x{H...}, \uHHHH.
  Result<std::string> code_point() {
    const bool braces = rest()[1] == 'x' && rest().size() > 2 && rest()[2] == '{';
    const size_t start = braces ? 3 : 2, most = braces ? 8 : rest()[1] == 'u' ? 4 : 2;
    size_t end = start;
    while (end < rest().size() && end < start + most && is_hex(rest()[end])) ++end;
    const bool closed = !braces || (end < rest().size() && rest()[end] == '}');
    if (end == start || !closed || (rest()[1] == 'u' && end != start + 4)) return invalid("a malformed \\x or \\u");
    return take(end + (braces ? 1 : 0), concat({"\\x{", rest().substr(start, end - start), "}"}));
  }

  /// What follows a [, up to its ]: an expression that matches one character.
  Result<std::string> character_set(int depth) {
    if (depth >= kMaxDepth) return unsupported("sets nested deeper than 32");
    const bool negated = peek() == '^';
    if (negated) ++pos_;
    std::vector<CharacterSet> operands(1);
    bool first = true;
    while (at_end() || peek() != ']' || first) {
      if (at_end()) return invalid("a [ without its ]");
      if (rest().substr(0, 2) == "&&") {
        pos_ += 2;
        operands.emplace_back();
      } else {
        COLIBRI_TRY(set_item(operands.back(), depth));
      }
      first = false;
    }
    ++pos_;
    if (operands.size() == 1 && operands[0].others.empty()) return bracket(operands[0].items, negated);
    return combine(operands, negated);
  }

  static std::string combine(const std::vector<CharacterSet>& operands, bool negated) {
    std::string all;
    for (size_t i = 0; i + 1 < operands.size(); ++i) all += concat({"(?=", operands[i].expression(), ")"});
    all += operands.back().expression();
    return negated ? concat({"(?:(?!", all, ")", kAnything, ")"}) : concat({"(?:", all, ")"});
  }

  Status set_item(CharacterSet& set, int depth) {
    const char c = peek();
    if (c == '[') {
      if (rest().substr(0, 2) == "[:") return posix_item(set);
      ++pos_;
      COLIBRI_ASSIGN(std::string nested, character_set(depth + 1));
      set.others.push_back(std::move(nested));
      return {};
    }
    if (c == '\\') return set_escape(set);
    // A - after a whole class or before one is itself; PCRE2 would read a range from the class's last item.
    const bool range = c == '-' && !after_class_ && pos_ + 1 < in_.size() && in_[pos_ + 1] != '[';
    if (c == '^' || c == ']' || (c == '-' && !range)) set.items += '\\';
    set.items += c;
    ++pos_;
    after_class_ = false;
    return {};
  }

  Status set_escape(CharacterSet& set) {
    if (rest().size() < 2) return invalid("a [ without its ]");
    const auto add = [&](std::string_view items) {
      set.items += items;
      pos_ += 2;
      after_class_ = true;
      return Status();
    };
    switch (rest()[1]) {
      case 's':
        return add(kSpace);
      case 'S':
        return add(kNoSpace);
      case 'w':
        return add(word_items());
      case 'h':
        return add(kHex);
      case 'd':
        return add(property_items("Nd"));
      case 'b':
        return add("\\x08");
      case 'W':
        set.others.push_back(bracket(word_items(), true));
        return add("");
      case 'H':
        set.others.push_back(bracket(kHex, true));
        return add("");
      case 'D':
        set.others.push_back(bracket(property_items("Nd"), true));
        return add("");
      case 'p':
      case 'P':
        return set_property(set);
      default:
        break;
    }
    COLIBRI_ASSIGN(const std::string item, character_escape());
    set.items += item;
    after_class_ = false;
    return {};
  }

  Status set_property(CharacterSet& set) {
    COLIBRI_ASSIGN(const Property property, read_property());
    if (property.negated) {
      set.others.push_back(bracket(property.items, true));
    } else {
      set.items += property.items;
    }
    after_class_ = true;
    return {};
  }

  Status posix_item(CharacterSet& set) {
    const auto add = [&](std::string_view name, std::string_view items) {
      set.items += items;
      pos_ += name.size();
      after_class_ = true;
      return Status();
    };
    if (rest().substr(0, 9) == "[:space:]") return add("[:space:]", kSpace);
    if (rest().substr(0, 9) == "[:digit:]") return add("[:digit:]", property_items("Nd"));
    if (rest().substr(0, 8) == "[:word:]") return add("[:word:]", word_items());
    if (rest().substr(0, 10) == "[:xdigit:]") return add("[:xdigit:]", kHex);
    return unsupported(
        std::string(rest().substr(0, rest().find(']') == std::string_view::npos ? 2 : rest().find(']') + 1)));
  }

  bool at_end() const { return pos_ >= in_.size(); }
  char peek() const { return at_end() ? '\0' : in_[pos_]; }
  std::string_view rest() const { return in_.substr(pos_); }
  Status copy(size_t n) {
    out_ += rest().substr(0, n);
    pos_ += n;
    return {};
  }
  Status put(size_t n, const std::string& text) {
    out_ += text;
    pos_ += n;
    return {};
  }
  std::string take(size_t n, std::string text) {
    pos_ += n;
    return text;
  }
  Error unsupported(const std::string& what) const {
    return {ErrorCode::kUnsupported, what + " is not supported, at byte " + std::to_string(pos_)};
  }
  Error invalid(const std::string& what) const {
    return {ErrorCode::kInvalidModel, what + ", at byte " + std::to_string(pos_)};
  }

  std::string_view in_;
  bool with_additions_;
  size_t pos_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where in out_ the element begins that a quantifier would repeat
  std::vector<size_t> groups_;  // where in out_ each open group begins
  bool after_class_ = false;    // inside brackets: the last item was a whole class
};

}  // namespace

Result<std::string> oniguruma_to_pcre2(std::string_view pattern, bool with_additions) {
  return Translator(pattern, with_additions).run();
}

}  // namespace colibri::text
