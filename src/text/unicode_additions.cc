#include "text/unicode_additions.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "text/utf8.h"

namespace colibri::text {
namespace {

bool is_addition(char32_t character) {
  const auto* behind = std::upper_bound(std::begin(kUnicodeAdditions), std::end(kUnicodeAdditions), character,
                                        [](char32_t c, const UnicodeAddition& a) { return c < a.first; });
  return behind != std::begin(kUnicodeAdditions) && character <= std::prev(behind)->last;
}

}  // namespace

bool has_unicode_addition(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t ascii = ascii_prefix(text.substr(pos));
    pos += ascii;
    if (pos < text.size() && is_addition(next_character(text, pos))) return true;
  }
  return false;
}

}  // namespace colibri::text
