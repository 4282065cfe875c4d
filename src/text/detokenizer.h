// Streaming detokeniser: token ids in, whole UTF-8 characters out, and stop strings that may span tokens.
//
// Both append to a string of the caller's, so that a stream which reuses it soon allocates nothing more.
// The concatenation of everything a Detokenizer gives equals Tokenizer::decode of all its ids.
// Ownership: values; a Detokenizer shares the tokenizer's tables. Thread-safety: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace colibri::text {

class Detokenizer {
 public:
  /// `kept`: special tokens that are not skipped.
  explicit Detokenizer(Tokenizer tokenizer, bool skip_special = true, TokenIds kept = {});
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;
  ~Detokenizer();

  /// Appends the text that became certain with this token: zero or more whole characters.
  void push(TokenId id, std::string& out);
  /// Appends what is still held back (an unfinished character becomes U+FFFD). Nothing may be pushed afterwards.
  void finish(std::string& out);

 private:
  struct Stream;
  Tokenizer tokenizer_;
  bool skip_special_;
  TokenIds kept_;  // sorted
  std::unique_ptr<Stream> stream_;
};

/// Finds the first of several stop strings in a stream of text: the one that begins leftmost in the whole text,
/// whatever the parts it arrives in. Text that could still become a stop string is held back, so a stop string that is
/// complete waits for one that began before it and may still be completed.
class StopMatcher {
 public:
  /// Empty strings among `stops` are ignored.
  explicit StopMatcher(std::vector<std::string> stops);
  /// Appends the text that may be shown now. After a match (stopped()) the text ends just before the stop string, and
  /// further text is ignored.
  void push(std::string_view text, std::string& out);
  /// Appends what is still held back when the stream ends. Here too a match may be found.
  void finish(std::string& out);
  bool stopped() const { return stopped_; }

 private:
  struct Stop {
    std::string text;
    std::vector<size_t> border;  // Knuth, Morris, Pratt: the longest proper border of each prefix
    size_t matched = 0;          // the longest prefix that the text so far ends with
  };
  void step(Stop& stop, char c);
  void release(size_t end, std::string& out);

  static constexpr size_t kNowhere = static_cast<size_t>(-1);
  std::vector<Stop> stops_;
  std::string held_;
  size_t released_ = 0;      // characters of the text, in bytes, that stand before held_
  size_t read_ = 0;          // bytes of the text so far
  size_t found_ = kNowhere;  // where the leftmost complete stop string begins
  bool stopped_ = false;
};

}  // namespace colibri::text
