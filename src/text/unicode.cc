#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "text/utf8.h"

namespace colibri::text {
namespace {

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }

bool in(char32_t character, char32_t first, char32_t last) { return character >= first && character <= last; }

/// Circled and squared letters: Alphabetic although their category is So.
bool is_enclosed_letter(char32_t c) {
  return in(c, 0x24B6, 0x24E9) || in(c, 0x1F130, 0x1F149) || in(c, 0x1F150, 0x1F169) || in(c, 0x1F170, 0x1F189);
}

/// Characters that no normal form changes and that no neighbour combines with, whatever stands around them.
/// Only a fast path: everything outside goes through utf8proc.
bool is_inert(char32_t c) {
  return c < 0xA0 || in(c, 0x2010, 0x2010) || in(c, 0x2012, 0x2016) || in(c, 0x2018, 0x2023) || in(c, 0x3001, 0x3029) ||
         in(c, 0x4E00, 0x9FFF);
}

/// The same for NFC alone: composed letters of common scripts, none of which combines with what stands before it.
bool is_inert_nfc(char32_t c) {
  return c < 0x300 || in(c, 0x400, 0x482) || in(c, 0x48A, 0x52F) || in(c, 0x3041, 0x3096) || in(c, 0x30A1, 0x30FA) ||
         in(c, 0xAC00, 0xD7A3);
}

bool is_unchanged(NormalForm form, std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_character(text, pos);
    if (is_inert(c) || (form == NormalForm::kNfc && is_inert_nfc(c))) continue;
    return false;
  }
  return true;
}

/// Appends the full decomposition of one character.
void decompose(char32_t character, int options, std::vector<utf8proc_int32_t>& out) {
  constexpr utf8proc_ssize_t kLongest = 18;  // U+FDFA, Unicode's longest
  utf8proc_int32_t parts[kLongest];
  int boundary = 0;
  const auto value = static_cast<utf8proc_int32_t>(character);
  const auto n = utf8proc_decompose_char(value, parts, kLongest, static_cast<utf8proc_option_t>(options), &boundary);
  if (n < 0 || n > kLongest) {
    out.push_back(value);
  } else {
    out.insert(out.end(), parts, parts + n);
  }
}

/// Canonical order. utf8proc's own sort is quadratic in the length of a run of marks.
void reorder_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto combining = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto start = characters.begin(); start != characters.end();) {
    const auto end = std::find_if(start, characters.end(), [&](auto c) { return combining(c) == 0; });
    std::stable_sort(start, end, [&](auto a, auto b) { return combining(a) < combining(b); });
    start = end == characters.end() ? end : end + 1;
  }
}

}  // namespace

bool is_whitespace(char32_t c) {
  return in(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || in(c, 0x2000, 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D || is_enclosed_letter(c);
  }
}

bool is_mark(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
}

void normalize(NormalForm form, std::string& text) {
  if (is_unchanged(form, text)) return;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) decompose(next_character(text, pos), options, characters);
  reorder_marks(characters);
  if (compose) {
    const auto n = utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
                                            static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    characters.resize(static_cast<size_t>(n));
  }
  text.clear();
  for (const utf8proc_int32_t c : characters) append_utf8(static_cast<char32_t>(c), text);
}

void each_grapheme(std::string_view text, const std::function<void(std::string_view)>& visit) {
  size_t begin = 0;
  utf8proc_int32_t previous = 0, state = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const auto c = static_cast<utf8proc_int32_t>(next_character(text, pos));
    if (start > 0 && utf8proc_grapheme_break_stateful(previous, c, &state)) {
      visit(text.substr(begin, start - begin));
      begin = start;
    }
    previous = c;
  }
  if (begin < text.size()) visit(text.substr(begin));
}

void lowercase(std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_character(text, pos);
    if (c == 0x130) {
      out.append("i\xCC\x87");  // the one character whose lower case is two
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
    }
  }
  text = std::move(out);
}

}  // namespace colibri::text
