// The is...() methods of strings.
#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace colibri::text::jinja {
namespace {

// True when the text is not empty (or may be) and every code point has the property.
template <bool (*Has)(char32_t), bool MayBeEmpty = false>
Result<Value> all(Call& call) {
  const std::string_view text = call.self.as_string();
  for (size_t pos = 0; pos < text.size();) {
    if (!Has(next_code_point(text, pos))) return Value::boolean(false);
  }
  return Value::boolean(MayBeEmpty || !text.empty());
}

// Every cased code point has the case, and there is one.
template <bool (*Has)(char32_t)>
Result<Value> all_cased(Call& call) {
  const std::string_view text = call.self.as_string();
  bool found = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    if (is_cased(c) && !Has(c)) return Value::boolean(false);
    found = found || Has(c);
  }
  return Value::boolean(found);
}

bool is_ascii(char32_t c) { return c < 0x80; }
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c) || is_digit(c); }
bool is_word(char32_t c) { return c == '_' || is_alnum(c); }

Result<Value> method_isidentifier(Call& call) {
  const std::string_view text = call.self.as_string();
  size_t pos = 0;
  if (text.empty() || is_decimal(next_code_point(text, pos))) return Value::boolean(false);
  return all<is_word>(call);
}

// Upper or title case exactly where a word starts.
Result<Value> method_istitle(Call& call) {
  const std::string_view text = call.self.as_string();
  bool in_word = false, found = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_code_point(text, pos);
    const bool starts = is_upper(c) || is_title(c);
    if (is_cased(c) && starts == in_word) return Value::boolean(false);
    in_word = is_cased(c);
    found = found || in_word;
  }
  return Value::boolean(found);
}

constexpr Builtin kMethods[] = {
    {"isalnum", all<is_alnum>, "", 0},
    {"isalpha", all<is_alpha>, "", 0},
    {"isascii", all<is_ascii, true>, "", 0},
    {"isdecimal", all<is_decimal>, "", 0},
    {"isdigit", all<is_digit>, "", 0},
    {"isidentifier", method_isidentifier, "", 0},
    {"islower", all_cased<is_lower>, "", 0},
    {"isnumeric", all<is_numeric>, "", 0},
    {"isprintable", all<is_printable, true>, "", 0},
    {"isspace", all<is_space>, "", 0},
    {"istitle", method_istitle, "", 0},
    {"isupper", all_cased<is_upper>, "", 0},
};

}  // namespace

std::span<const Builtin> string_predicates() { return kMethods; }

}  // namespace colibri::text::jinja
