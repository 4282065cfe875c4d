// Streaming detokeniser: token ids in, whole UTF-8 characters out, and stop strings that may span tokens.
//
// The concatenation of everything a Detokenizer gives equals Tokenizer::decode of all its ids.
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace colibri::text {

class Detokenizer {
 public:
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true);
  /// Text that became certain with this token: zero or more whole characters.
  std::string push(TokenId id);
  /// What is still held back (an unfinished character becomes U+FFFD).
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;  // bytes that may still grow into a character
  bool at_start_ = true;
};

/// Finds the first of several stop strings in a stream of text. Text that could still become a stop string is held back.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);
  /// Text that may be shown now. After a match (stopped()) the text ends just before the stop string.
  std::string push(std::string_view text);
  /// What is still held back when the stream ends without a match.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace colibri::text
