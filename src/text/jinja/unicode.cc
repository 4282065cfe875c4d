#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace colibri::text::jinja {
namespace {

struct SpecialUpper {
  char32_t from;
  const char32_t* to;
};

// Code points whose upper case is several code points (Unicode's SpecialCasing, unconditional part), in order.
constexpr SpecialUpper kSpecialUpper[] = {
    {0x00df, U"SS"},
    {0x0149, U"\u02bcN"},
    {0x01f0, U"J\u030c"},
    {0x0390, U"\u0399\u0308\u0301"},
    {0x03b0, U"\u03a5\u0308\u0301"},
    {0x0587, U"\u0535\u0552"},
    {0x1e96, U"H\u0331"},
    {0x1e97, U"T\u0308"},
    {0x1e98, U"W\u030a"},
    {0x1e99, U"Y\u030a"},
    {0x1e9a, U"A\u02be"},
    {0x1f50, U"\u03a5\u0313"},
    {0x1f52, U"\u03a5\u0313\u0300"},
    {0x1f54, U"\u03a5\u0313\u0301"},
    {0x1f56, U"\u03a5\u0313\u0342"},
    {0x1f80, U"\u1f08\u0399"},
    {0x1f81, U"\u1f09\u0399"},
    {0x1f82, U"\u1f0a\u0399"},
    {0x1f83, U"\u1f0b\u0399"},
    {0x1f84, U"\u1f0c\u0399"},
    {0x1f85, U"\u1f0d\u0399"},
    {0x1f86, U"\u1f0e\u0399"},
    {0x1f87, U"\u1f0f\u0399"},
    {0x1f88, U"\u1f08\u0399"},
    {0x1f89, U"\u1f09\u0399"},
    {0x1f8a, U"\u1f0a\u0399"},
    {0x1f8b, U"\u1f0b\u0399"},
    {0x1f8c, U"\u1f0c\u0399"},
    {0x1f8d, U"\u1f0d\u0399"},
    {0x1f8e, U"\u1f0e\u0399"},
    {0x1f8f, U"\u1f0f\u0399"},
    {0x1f90, U"\u1f28\u0399"},
    {0x1f91, U"\u1f29\u0399"},
    {0x1f92, U"\u1f2a\u0399"},
    {0x1f93, U"\u1f2b\u0399"},
    {0x1f94, U"\u1f2c\u0399"},
    {0x1f95, U"\u1f2d\u0399"},
    {0x1f96, U"\u1f2e\u0399"},
    {0x1f97, U"\u1f2f\u0399"},
    {0x1f98, U"\u1f28\u0399"},
    {0x1f99, U"\u1f29\u0399"},
    {0x1f9a, U"\u1f2a\u0399"},
    {0x1f9b, U"\u1f2b\u0399"},
    {0x1f9c, U"\u1f2c\u0399"},
    {0x1f9d, U"\u1f2d\u0399"},
    {0x1f9e, U"\u1f2e\u0399"},
    {0x1f9f, U"\u1f2f\u0399"},
    {0x1fa0, U"\u1f68\u0399"},
    {0x1fa1, U"\u1f69\u0399"},
    {0x1fa2, U"\u1f6a\u0399"},
    {0x1fa3, U"\u1f6b\u0399"},
    {0x1fa4, U"\u1f6c\u0399"},
    {0x1fa5, U"\u1f6d\u0399"},
    {0x1fa6, U"\u1f6e\u0399"},
    {0x1fa7, U"\u1f6f\u0399"},
    {0x1fa8, U"\u1f68\u0399"},
    {0x1fa9, U"\u1f69\u0399"},
    {0x1faa, U"\u1f6a\u0399"},
    {0x1fab, U"\u1f6b\u0399"},
    {0x1fac, U"\u1f6c\u0399"},
    {0x1fad, U"\u1f6d\u0399"},
    {0x1fae, U"\u1f6e\u0399"},
    {0x1faf, U"\u1f6f\u0399"},
    {0x1fb2, U"\u1fba\u0399"},
    {0x1fb3, U"\u0391\u0399"},
    {0x1fb4, U"\u0386\u0399"},
    {0x1fb6, U"\u0391\u0342"},
    {0x1fb7, U"\u0391\u0342\u0399"},
    {0x1fbc, U"\u0391\u0399"},
    {0x1fc2, U"\u1fca\u0399"},
    {0x1fc3, U"\u0397\u0399"},
    {0x1fc4, U"\u0389\u0399"},
    {0x1fc6, U"\u0397\u0342"},
    {0x1fc7, U"\u0397\u0342\u0399"},
    {0x1fcc, U"\u0397\u0399"},
    {0x1fd2, U"\u0399\u0308\u0300"},
    {0x1fd3, U"\u0399\u0308\u0301"},
    {0x1fd6, U"\u0399\u0342"},
    {0x1fd7, U"\u0399\u0308\u0342"},
    {0x1fe2, U"\u03a5\u0308\u0300"},
    {0x1fe3, U"\u03a5\u0308\u0301"},
    {0x1fe4, U"\u03a1\u0313"},
    {0x1fe6, U"\u03a5\u0342"},
    {0x1fe7, U"\u03a5\u0308\u0342"},
    {0x1ff2, U"\u1ffa\u0399"},
    {0x1ff3, U"\u03a9\u0399"},
    {0x1ff4, U"\u038f\u0399"},
    {0x1ff6, U"\u03a9\u0342"},
    {0x1ff7, U"\u03a9\u0342\u0399"},
    {0x1ffc, U"\u03a9\u0399"},
    {0xfb00, U"FF"},
    {0xfb01, U"FI"},
    {0xfb02, U"FL"},
    {0xfb03, U"FFI"},
    {0xfb04, U"FFL"},
    {0xfb05, U"ST"},
    {0xfb06, U"ST"},
    {0xfb13, U"\u0544\u0546"},
    {0xfb14, U"\u0544\u0535"},
    {0xfb15, U"\u0544\u053b"},
    {0xfb16, U"\u054e\u0546"},
    {0xfb17, U"\u0544\u053d"},
};

const char32_t* special_upper(char32_t c) {
  if (c < kSpecialUpper[0].from) return nullptr;
  const auto* row = std::lower_bound(std::begin(kSpecialUpper), std::end(kSpecialUpper), c,
                                     [](const SpecialUpper& a, char32_t b) { return a.from < b; });
  return row != std::end(kSpecialUpper) && row->from == c ? row->to : nullptr;
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

char32_t simple_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }

void append_upper(std::string& out, char32_t c) {
  if (const char32_t* special = special_upper(c)) {
    for (; *special != 0; ++special) append_utf8(out, *special);
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  const auto title = static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
  const char32_t* special = special_upper(c);
  if (special == nullptr || is_title(title)) return append_utf8(out, title);
  append_utf8(out, *special++);
  for (; *special != 0; ++special) append_utf8(out, simple_lower(*special));
}

bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2019;
  }
}

bool cased_before(std::string_view text, size_t end) {
  while (end > 0) {
    end = previous_code_point(text, end);
    size_t pos = end;
    const char32_t c = next_code_point(text, pos);
    if (!is_case_ignorable(c)) return is_cased(c);
  }
  return false;
}

bool cased_after(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    const char32_t c = next_code_point(text, pos);
    if (!is_case_ignorable(c)) return is_cased(c);
  }
  return false;
}

// The code point at [start, end) of `text` in lower case: sigma depends on whether a word ends there.
void append_lower(std::string& out, std::string_view text, size_t start, size_t end, char32_t c) {
  constexpr char32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2, kCapitalDottedI = 0x130;
  if (c == kCapitalSigma) {
    const bool final = cased_before(text, start) && !cased_after(text, end);
    return append_utf8(out, final ? kFinalSigma : kSmallSigma);
  }
  if (c == kCapitalDottedI) return void(out.append("i\xcc\x87"));
  append_utf8(out, simple_lower(c));
}

// Calls fn(code point, start, end) for each code point.
template <typename Fn>
void for_each(std::string_view text, Fn fn) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = next_code_point(text, pos);
    fn(c, start, pos);
  }
}

template <typename Drop>
std::string_view strip_if(std::string_view text, Side side, Drop drop) {
  size_t start = 0, end = text.size();
  while (side != Side::kRight && start < end) {
    size_t next = start;
    if (!drop(next_code_point(text, next))) break;
    start = next;
  }
  while (side != Side::kLeft && start < end) {
    const size_t previous = previous_code_point(text, end);
    size_t pos = previous;
    if (!drop(next_code_point(text, pos))) break;
    end = previous;
  }
  return text.substr(start, end - start);
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t pos = 0; pos < text.size();) {
    utf8proc_int32_t c = 0;
    const auto n = utf8proc_iterate(bytes + pos, static_cast<utf8proc_ssize_t>(text.size() - pos), &c);
    if (n <= 0) return false;
    pos += static_cast<size_t>(n);
  }
  return true;
}

char32_t next_code_point(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[pos + i])); };
  const size_t n = code_point_bytes(text[pos]);
  char32_t c = byte(0);
  if (n == 2) c = (c & 0x1f) << 6 | (byte(1) & 0x3f);
  if (n == 3) c = (c & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  if (n == 4) c = (c & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  pos += n;
  return c;
}

size_t previous_code_point(std::string_view text, size_t end) {
  do --end;
  while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

void append_utf8(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

size_t count_code_points(std::string_view text) {
  size_t continuation = 0;
  for (const char c : text) continuation += (static_cast<unsigned char>(c) & 0xc0) == 0x80 ? 1 : 0;
  return text.size() - continuation;
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t pos = 0;
  while (index > 0 && pos < text.size()) {
    pos += code_point_bytes(text[pos]);
    --index;
  }
  return pos;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO;
}
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

std::string to_lower(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, size_t start, size_t end) { append_lower(out, text, start, end, c); });
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, size_t, size_t) { append_upper(out, c); });
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, size_t start, size_t end) {
    if (start == 0) append_title(out, c);
    if (start > 0) append_lower(out, text, start, end, c);
  });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for_each(text, [&](char32_t c, size_t start, size_t end) {
    if (in_word) append_lower(out, text, start, end, c);
    if (!in_word) append_title(out, c);
    in_word = is_cased(c);
  });
  return out;
}

std::string to_swapped_case(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, size_t start, size_t end) {
    if (is_upper(c)) return append_lower(out, text, start, end, c);
    if (is_lower(c)) return append_upper(out, c);
    append_utf8(out, c);
  });
  return out;
}

std::string to_casefold(std::string_view text) {
  std::string out;
  for_each(text, [&](char32_t c, size_t, size_t) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 8, UTF8PROC_CASEFOLD, &boundary);
    if (n < 1 || n > 8) return append_utf8(out, c);
    for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(folded[i]));
  });
  return out;
}

std::string_view strip(std::string_view text, Side side) { return strip_if(text, side, is_space); }

std::string_view strip(std::string_view text, std::string_view chars, Side side) {
  std::u32string set;
  for (size_t pos = 0; pos < chars.size();) set.push_back(next_code_point(chars, pos));
  std::sort(set.begin(), set.end());
  return strip_if(text, side, [&set](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

}  // namespace colibri::text::jinja
