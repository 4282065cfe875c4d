#include "text/jinja/lexer.h"

#include <charconv>
#include <string>

#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

struct Operator {
  std::string_view text;
  TokenKind kind;
};

// Two characters before one.
constexpr Operator kOperators[] = {
    {"//", TokenKind::kFloorDiv},   {"**", TokenKind::kPow},         {"==", TokenKind::kEq},
    {"!=", TokenKind::kNe},         {">=", TokenKind::kGe},          {"<=", TokenKind::kLe},
    {"+", TokenKind::kAdd},         {"-", TokenKind::kSub},          {"/", TokenKind::kDiv},
    {"*", TokenKind::kMul},         {"%", TokenKind::kMod},          {"~", TokenKind::kTilde},
    {"[", TokenKind::kLeftBracket}, {"]", TokenKind::kRightBracket}, {"(", TokenKind::kLeftParen},
    {")", TokenKind::kRightParen},  {"{", TokenKind::kLeftBrace},    {"}", TokenKind::kRightBrace},
    {">", TokenKind::kGt},          {"<", TokenKind::kLt},           {"=", TokenKind::kAssign},
    {".", TokenKind::kDot},         {":", TokenKind::kColon},        {"|", TokenKind::kPipe},
    {",", TokenKind::kComma},       {";", TokenKind::kSemicolon},
};

bool is_digit_of(char c, int base) {
  if (base == 16) return std::string_view("0123456789abcdefABCDEF").find(c) != std::string_view::npos;
  return c >= '0' && c < '0' + base;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view name, Heap& heap) : source_(source), name_(name), heap_(heap) {}

  Result<std::vector<Token>> run() {
    while (pos_ < source_.size()) COLIBRI_TRY(lex_data());
    push(TokenKind::kEnd, {});
    return std::move(tokens_);
  }

 private:
  Error fail(Pieces message) const { return syntax_error(name_, line_, message); }
  Error fail(std::string_view message) const { return fail({message}); }

  char at(size_t pos) const { return pos < source_.size() ? source_[pos] : '\0'; }
  bool starts_with(std::string_view text, size_t pos) const { return source_.substr(pos).starts_with(text); }

  void push(TokenKind kind, std::string_view text) { tokens_.push_back({kind, line_, text, 0, 0}); }

  void advance_to(size_t pos) {
    for (; pos_ < pos; ++pos_) line_ += source_[pos_] == '\n' ? 1 : 0;
  }

  size_t skip_space(size_t pos) const {
    while (pos < source_.size()) {
      size_t next = pos;
      if (!is_space(next_code_point(source_, next))) break;
      pos = next;
    }
    return pos;
  }

  // Where "raw" (or "endraw") ends if the tag that starts at `pos` is that one: the position of its -, + or %}.
  size_t keyword_tag(size_t pos, std::string_view keyword) const {
    pos += 2;
    if (at(pos) == '-' || at(pos) == '+') ++pos;
    pos = skip_space(pos);
    if (!starts_with(keyword, pos)) return std::string_view::npos;
    pos = skip_space(pos + keyword.size());
    const bool closes = starts_with("%}", pos) || starts_with("-%}", pos) || starts_with("+%}", pos);
    return closes ? pos : std::string_view::npos;
  }

  // Behind a tag's end that starts at `pos` with an optional sign: "-%}" takes the blanks that follow, "%}" one
  // newline.
  size_t after_tag(size_t pos, bool trim_newline) const {
    const char sign = at(pos);
    if (sign == '-') return skip_space(pos + 3);
    if (sign == '+') return pos + 3;
    return pos + 2 + (trim_newline && at(pos + 2) == '\n' ? 1 : 0);
  }

  void end_tag(size_t pos) {
    advance_to(pos);
    line_starting_ = pos > 0 && source_[pos - 1] == '\n';
  }

  // Emits source_[pos_, tag) as data, without the blanks that the tag's sign or lstrip_blocks takes.
  void push_data(size_t tag, bool is_variable) {
    const std::string_view text = source_.substr(pos_, tag - pos_);
    const char sign = at(tag + 2);
    std::string_view kept = text;
    if (sign == '-') {
      kept = strip(text, Side::kRight);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool only_blanks = strip(text.substr(line_start), Side::kRight).empty();
      if ((line_start > 0 || line_starting_) && only_blanks) kept = text.substr(0, line_start);
    }
    if (!kept.empty()) push(TokenKind::kData, kept);
    advance_to(tag);
  }

  Status lex_data() {
    size_t tag = source_.find('{', pos_);
    while (tag != std::string_view::npos && at(tag + 1) != '%' && at(tag + 1) != '{' && at(tag + 1) != '#') {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string_view::npos) {
      push(TokenKind::kData, source_.substr(pos_));
      advance_to(source_.size());
      return {};
    }
    const char kind = source_[tag + 1];
    push_data(tag, kind == '{');
    if (kind == '#') return lex_comment();
    if (kind == '%') {
      const size_t raw = keyword_tag(tag, "raw");
      if (raw != std::string_view::npos && at(raw) != '+') return lex_raw(raw);
    }
    const bool signed_tag = at(tag + 2) == '-' || at(tag + 2) == '+';
    push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, source_.substr(tag, 2));
    advance_to(tag + (signed_tag ? 3 : 2));
    return lex_tag(kind == '{');
  }

  Status lex_comment() {
    const size_t start = pos_ + (at(pos_ + 2) == '-' || at(pos_ + 2) == '+' ? 3 : 2);
    size_t end = source_.find("#}", start);
    if (end == std::string_view::npos) return fail("missing end of comment tag");
    if (end > start && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    end_tag(after_tag(end, true));
    return {};
  }

  Status lex_raw(size_t begin_end) {
    end_tag(after_tag(begin_end, false));
    for (size_t tag = source_.find("{%", pos_); tag != std::string_view::npos; tag = source_.find("{%", tag + 1)) {
      const size_t end = keyword_tag(tag, "endraw");
      if (end == std::string_view::npos) continue;
      push_data(tag, false);
      end_tag(after_tag(end, true));
      return {};
    }
    return fail("missing end of raw directive");
  }

  // The inside of {{ }} or {% %}, its end included. Inside brackets }} and %} are operators.
  Status lex_tag(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    std::string brackets;
    while (true) {
      advance_to(skip_space(pos_));
      if (pos_ >= source_.size()) return fail("the template ends inside a tag");
      const char c = source_[pos_];
      const bool has_sign = (c == '-' || (c == '+' && !is_variable)) && starts_with(end, pos_ + 1);
      if (brackets.empty() && (has_sign || starts_with(end, pos_))) {
        push(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, end);
        end_tag(after_tag(pos_, !is_variable));
        return {};
      }
      COLIBRI_TRY(lex_token(c, brackets));
    }
  }

  Status lex_token(char c, std::string& brackets) {
    if (c >= '0' && c <= '9') return lex_number();
    if (c == '"' || c == '\'') return lex_string(c);
    if (const size_t end = name_end(pos_); end > pos_) {
      push(TokenKind::kName, source_.substr(pos_, end - pos_));
      advance_to(end);
      return {};
    }
    for (const Operator& op : kOperators) {
      if (!starts_with(op.text, pos_)) continue;
      COLIBRI_TRY(balance(c, brackets));
      push(op.kind, op.text);
      advance_to(pos_ + op.text.size());
      return {};
    }
    return fail({"unexpected character ", source_.substr(pos_, code_point_bytes(c))});
  }

  size_t name_end(size_t pos) const {
    while (pos < source_.size()) {
      size_t next = pos;
      const char32_t c = next_code_point(source_, next);
      const bool ascii_word = c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
      if (c < 0x80 ? !ascii_word : !(is_alpha(c) || is_numeric(c))) break;
      pos = next;
    }
    return pos;
  }

  Status balance(char c, std::string& brackets) const {
    if (c == '(') brackets.push_back(')');
    if (c == '[') brackets.push_back(']');
    if (c == '{') brackets.push_back('}');
    if (c != ')' && c != ']' && c != '}') return {};
    if (brackets.empty()) return fail({"unexpected '", {&c, 1}, "'"});
    if (brackets.back() != c) return fail({"unexpected '", {&c, 1}, "', expected '", {&brackets.back(), 1}, "'"});
    brackets.pop_back();
    return {};
  }

  // Behind the digits (single underscores between them allowed) at `pos`; `pos` itself when there are none.
  size_t digits_end(size_t pos, int base) const {
    size_t end = pos;
    while (is_digit_of(at(pos), base)) {
      end = ++pos;
      if (at(pos) == '_' && is_digit_of(at(pos + 1), base)) ++pos;
    }
    return end;
  }

  size_t exponent_end(size_t pos) const {
    if (at(pos) != 'e' && at(pos) != 'E') return pos;
    const size_t digits = pos + (at(pos + 1) == '+' || at(pos + 1) == '-' ? 2 : 1);
    const size_t end = digits_end(digits, 10);
    return end > digits ? end : pos;
  }

  Status lex_number() {
    const size_t whole = digits_end(pos_, 10);
    size_t end = whole;
    if (at(whole) == '.' && digits_end(whole + 1, 10) > whole + 1) end = digits_end(whole + 1, 10);
    end = exponent_end(end);
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    if (end > whole && !after_dot) return push_float(end);
    const char prefix = static_cast<char>(at(pos_ + 1) | 0x20);
    const int base = at(pos_) != '0' ? 10 : prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    if (base == 10) return push_integer(pos_, at(pos_) == '0' ? digits_end(pos_, 1) : whole, 10);
    size_t digits = pos_ + 2 + (at(pos_ + 2) == '_' ? 1 : 0);
    if (digits_end(digits, base) == digits) return push_integer(pos_, pos_ + 1, 10);
    return push_integer(digits, digits_end(digits, base), base);
  }

  std::string digits_of(size_t start, size_t end) const {
    std::string digits;
    for (const char c : source_.substr(start, end - start)) {
      if (c != '_') digits.push_back(c);
    }
    return digits;
  }

  Status push_integer(size_t start, size_t end, int base) {
    const std::string digits = digits_of(start, end);
    push(TokenKind::kInteger, source_.substr(pos_, end - pos_));
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), tokens_.back().integer, base);
    if (error != std::errc()) return fail({"integer ", digits, " does not fit 64 bits"});
    advance_to(end);
    return {};
  }

  Status push_float(size_t end) {
    const std::string digits = digits_of(pos_, end);
    push(TokenKind::kFloat, source_.substr(pos_, end - pos_));
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), tokens_.back().real);
    if (error != std::errc()) return fail({"float ", digits, " is out of range"});
    advance_to(end);
    return {};
  }

  Status lex_string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return fail("a string literal without an end");
    const std::string_view body = source_.substr(pos_ + 1, end - pos_ - 1);
    if (body.find('\\') == std::string_view::npos) {
      push(TokenKind::kString, body);
    } else {
      std::string text;
      COLIBRI_TRY(unescape(body, text));
      push(TokenKind::kString, heap_.copy(text));
    }
    advance_to(end + 1);
    return {};
  }

  // Python's unicode-escape, without \N{...}.
  Status unescape(std::string_view body, std::string& out) const {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\') {
        out.push_back(body[i]);
        continue;
      }
      const char c = body[++i];
      const size_t name = kNames.find(c);
      if (name != std::string_view::npos) {
        out.push_back(kMeanings[name]);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        COLIBRI_TRY(append_code(body.substr(i + 1, digits), digits, 16, out));
        i += digits;
      } else if (c >= '0' && c <= '7') {
        size_t digits = 1;
        while (digits < 3 && i + digits < body.size() && is_digit_of(body[i + digits], 8)) ++digits;
        COLIBRI_TRY(append_code(body.substr(i, digits), digits, 8, out));
        i += digits - 1;
      } else if (c != '\n') {
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return {};
  }

  Status append_code(std::string_view digits, size_t wanted, int base, std::string& out) const {
    uint32_t code = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, base);
    const bool whole = error == std::errc() && stop == digits.data() + digits.size() && digits.size() == wanted;
    if (!whole) return fail("a truncated \\ escape in a string literal");
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
      return fail("a \\ escape in a string literal that is no character");
    }
    append_utf8(out, code);
    return {};
  }

  std::string_view source_;
  std::string_view name_;
  Heap& heap_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag ended with a newline, or there was none yet
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out.push_back(source[i] == '\r' ? '\n' : source[i]);
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

Error syntax_error(std::string_view template_name, int line, Pieces message) {
  const std::string number = std::to_string(line);
  return {ErrorCode::kInvalidModel, concat({"template ", template_name, ", line ", number, ": ", concat(message)})};
}

Result<std::vector<Token>> tokenize(std::string_view source, std::string_view template_name, Heap& heap) {
  return Lexer(source, template_name, heap).run();
}

}  // namespace colibri::text::jinja
