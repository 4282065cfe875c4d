// Decoder: turns the spellings of tokens into text, token by token.
//
// One implementation serves whole sequences and streams: a DecodeStream gives what is certain after each token, and all
// it gave is what the decoder of Hugging Face `tokenizers` makes of the whole sequence. It therefore holds back
// unfinished characters, runs of byte tokens (a run that is no UTF-8 becomes one U+FFFD per byte, so its end decides)
// and what a Strip may cut off at the end.
// Ownership: a stream refers to its decoder. Thread-safety: Decoder is constant; a stream belongs to one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace colibri::text {

class Decoder {
 public:
  /// The member "decoder" of a tokenizer.json; null or absent puts a blank between tokens. Errors name what is not
  /// supported.
  static Result<Decoder> parse(const Json* json);
  static Decoder byte_level();

  /// Appends the bytes that a token stands for in the middle of a text (pieces of a character too). False, and nothing
  /// is appended, when they depend on the tokens around it.
  bool append_bytes(std::string_view spelling, std::string& out) const;

 private:
  friend class DecodeStream;
  enum class Kind { kByteLevel, kByteFallback, kFuse, kReplace, kStrip, kMetaspace, kJoin };
  struct Stage {
    Kind kind = Kind::kJoin;
    bool fused = false;                      // a stage before has made one token of all: what comes in are its parts
    Pattern pattern = Pattern::literal("");  // Replace, Metaspace
    std::string content;                     // Replace: the new text; Strip: the character; Metaspace: the mark
    size_t left = 0, right = 0;              // Strip: how many characters at most
    bool drop_first = false;                 // Metaspace: the first token's marks vanish
  };
  static Result<Stage> parse_stage(const Json& json);
  std::vector<Stage> stages_;
};

class DecodeStream {
 public:
  /// Makes room for spellings of up to `longest` bytes, so that pushing one allocates nothing.
  DecodeStream(const Decoder& decoder, size_t longest);

  /// Appends to `out` the text that became certain.
  void push(std::string_view spelling, std::string& out);
  /// Appends what was held back. Nothing may be pushed afterwards.
  void finish(std::string& out);

 private:
  struct State {
    Utf8Stream utf8;       // ByteLevel
    std::string bytes;     // ByteFallback: the run so far; ByteLevel: the token's bytes
    std::string text;      // what this stage made of the last token; here so that its memory is reused
    size_t stripped = 0;   // Strip, fused: characters cut off at the front
    size_t held = 0;       // Strip, fused: characters at the end that may have to go
    bool started = false;  // a token, or a character that stays, has been seen
  };

  void feed(size_t stage, std::string_view token, std::string& out);
  void feed_bytes(size_t stage, std::string_view token, std::string& out);
  void feed_fallback(size_t stage, std::string_view token, std::string& out);
  void feed_strip_part(size_t stage, std::string_view part, std::string& out);
  void feed_metaspace(size_t stage, std::string_view token, std::string& out);
  void flush_fallback(size_t stage, std::string& out);
  std::string& replaced(size_t stage, std::string_view token, std::string_view content);

  const Decoder* decoder_;
  std::vector<State> states_;
  RegexWorkspace workspace_;
};

}  // namespace colibri::text
