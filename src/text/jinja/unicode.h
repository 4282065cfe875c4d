// Unicode: code points in UTF-8 text, and what Python's str methods ask about them.
//
// All text here is valid UTF-8 (templates are checked when parsed, contexts when read), so decoding cannot fail.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::text::jinja {

bool is_valid_utf8(std::string_view text);

/// The code point at `pos`, which moves behind it. REQUIRES: pos < text.size().
char32_t next_code_point(std::string_view text, size_t& pos);
/// Bytes of the code point that starts with `lead`.
constexpr size_t code_point_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
/// Start of the code point that ends at `end`. REQUIRES: end > 0.
size_t previous_code_point(std::string_view text, size_t end);
/// Appends `c`. REQUIRES: c is a scalar value.
void append_utf8(std::string& out, char32_t c);

size_t count_code_points(std::string_view text);
/// Byte offset of code point `index`; text.size() when there are fewer.
size_t byte_offset(std::string_view text, size_t index);

bool is_space(char32_t c);  ///< Python's str.isspace
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_title(char32_t c);
bool is_cased(char32_t c);

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
/// First code point in title case, the others in lower case.
std::string to_capitalized(std::string_view text);
std::string to_title(std::string_view text);  ///< str.title, not the filter of that name
std::string to_swapped_case(std::string_view text);
std::string to_casefold(std::string_view text);

/// `text` without blanks (or code points of `chars`) at its start and end.
enum class Side : uint8_t { kBoth, kLeft, kRight };
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, std::string_view chars, Side side);

}  // namespace colibri::text::jinja
