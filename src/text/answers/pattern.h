// Patterns: how the frame around a tool call is written, in one string that serves for reading and for writing.
//
// In a pattern, blanks stand for any blanks or none when it is read, and for themselves when it is written; "$" and a
// letter stand for the parts below; every other byte for itself. Reading needs no more than the text so far: kPartial
// says that the end of the text decides. Thread-safety: free functions and plain values.
//   $~  blanks when read, nothing when written     $!  what follows is looked at, not taken and not written
//   $N  the tool's name                            $F  functions.NAME:INDEX, which is also the call's id
//   $I  the call's id                              $#  its number, from 1
//   $K  a parameter's name                         $T  its type: a word
//   $J  a JSON object with the call, up to its arguments, which must be an object        $R  the rest of that object
#pragma once

#include <string>
#include <string_view>

namespace colibri::text {

struct Match {
  enum State { kNo, kPartial, kYes } state = kNo;
  size_t size = 0;  ///< bytes of the text that belong to it
  std::string name, id, key, type;
  /// $J: the arguments, when they came before the name or are missing; the object then ends with $R as always.
  std::string arguments;
};

/// The pattern at the front of the text.
Match match(std::string_view pattern, std::string_view text);

struct Written {
  std::string_view name;  ///< $N, and in $F
  int index = 0;          ///< $F, $I, $#, from 0
  std::string_view key;   ///< $K
  std::string_view type;  ///< $T
  std::string_view json;  ///< $J, with %s for the name
};
std::string write(std::string_view pattern, const Written& parts);

/// The literal that a text must begin with to match.
std::string_view literal_of(std::string_view pattern);

/// How many bytes at the end of `text` may be the beginning of `literal`.
size_t beginning_at_end(std::string_view text, std::string_view literal);

/// Takes the first part of a list that is written "a$;b$;c".
std::string_view next_part(std::string_view& list);

}  // namespace colibri::text
