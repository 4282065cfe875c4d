// JsonScanner: follows one JSON value byte by byte and says where it ends and whether it is one.
//
// What tool calls in JSON are streamed through: it needs no more than the bytes so far, so the same text gives the same
// answers however it was cut. Nesting is bounded by kMaxDepth. Thread-safety: a plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::text {

class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 64;
  enum class Step {
    kMore,   ///< taken; the value goes on
    kDone,   ///< taken; the value ends with it
    kEnded,  ///< not taken: the value (a number or a word) ended before it
    kBad,    ///< not taken: no JSON value goes on like this
  };

  /// REQUIRES: neither kDone, kEnded nor kBad was returned before.
  Step feed(char c);
  /// Inside a string, where control characters are no JSON but are easily repaired.
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State : uint8_t { kValue, kFirstItem, kFirstKey, kKey, kColon, kAfterItem, kString, kEscape, kHex, kWord };

  Step begin_value(char c);
  Step after_item(char c);
  Step string_byte(char c);
  Step escape_byte(char c);
  Step hex_digit(char c);
  Step word_byte(char c);
  Step open(char closer, State state);
  Step close(char c);
  Step value_ended();
  Step go(State state) {
    state_ = state;
    return Step::kMore;
  }

  State state_ = State::kValue;
  std::string closers_;   // of the open objects and arrays
  std::string word_;      // the number or word being read
  bool is_key_ = false;   // the string being read
  uint32_t unit_ = 0;     // of \uXXXX
  int hex_digits_ = 0;    // read of it
  bool low_due_ = false;  // a high surrogate was read; its low one must follow
};

/// Whether `word` is a JSON number or true, false or null.
bool is_json_scalar(std::string_view word);

/// How a JSON value at the front of `text` stands.
struct JsonExtent {
  enum State { kNo, kPartial, kYes } state;
  size_t size;  ///< kYes: bytes of the value, blanks before it included
};
JsonExtent json_extent(std::string_view text);

/// Whether the whole of `text`, blanks around it aside, is one JSON value.
bool is_json(std::string_view text);

/// `text` as the inside of a JSON string.
std::string json_escaped(std::string_view text);

inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
std::string_view without_blanks_around(std::string_view text);
size_t blanks_at_front(std::string_view text);

}  // namespace colibri::text
