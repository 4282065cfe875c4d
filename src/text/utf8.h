// UTF-8: reading, writing, checking, and replacing what is no UTF-8.
//
// An invalid sequence becomes one U+FFFD per maximal subpart (Unicode 3.9, "best practice"), which is what Rust's
// from_utf8_lossy and Python's errors="replace" do. Used by every part of the tokenizer.
// Thread-safety: free functions and plain values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colibri::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// What stands at the front of some bytes.
struct Utf8Step {
  enum Kind { kCharacter, kInvalid, kIncomplete };
  Kind kind;
  size_t length;  ///< bytes of the character, of the invalid subpart, or of all that is there
};

/// REQUIRES: bytes is not empty.
Utf8Step utf8_step(std::string_view bytes);

/// How many bytes at the front are ASCII.
size_t ascii_prefix(std::string_view text);

bool is_valid_utf8(std::string_view text);

/// `text` itself when it is valid, else a repaired copy that lives in `storage`.
std::string_view valid_utf8(std::string_view text, std::string& storage);

/// The character at `pos`, which moves behind it. REQUIRES: valid UTF-8, pos < text.size().
char32_t next_character(std::string_view text, size_t& pos);

/// Start of the character that ends before `pos`. REQUIRES: valid UTF-8, 0 < pos <= text.size().
size_t previous_start(std::string_view text, size_t pos);

/// REQUIRES: a Unicode scalar value.
void append_utf8(char32_t character, std::string& out);

/// Bytes in, valid UTF-8 out; the unfinished end of a character waits for its rest.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string pending_;  // at most three bytes: the beginning of a character
};

}  // namespace colibri::text
