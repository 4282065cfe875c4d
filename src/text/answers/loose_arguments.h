// LooseArguments: arguments in the notations that are nearly JSON: the keyword arguments of a Python call, and Gemma's
// key:value with strings between <|"|>.
//
// Strings are given as they come, words and numbers when they end. Nesting is bounded. Thread-safety: none.
#pragma once

#include <string>
#include <vector>

#include "text/answers/arguments.h"

namespace colibri::text {

class LooseArguments final : public ArgumentReader {
 public:
  static constexpr size_t kMaxDepth = 64;

  /// The text begins after the opening parenthesis or brace. REQUIRES: kPython or kGemma.
  explicit LooseArguments(CallStyle style) : python_(style == CallStyle::kPython) {}
  Progress read(std::string_view text, std::string& json) override;
  void finish(std::string_view text, std::string& json) override;

 private:
  enum class Expect : uint8_t { kFirstKey, kKey, kColon, kFirstValue, kValue, kComma, kInString };
  // What is open: the call's arguments, an object, a list.
  enum class Open : uint8_t { kArguments, kObject, kList };

  Progress step(std::string_view text, std::string& json);
  Progress key(std::string_view text, std::string& json);
  Progress colon(char c, std::string& json);
  Progress value(std::string_view text, std::string& json);
  Progress comma(std::string_view text, std::string& json);
  Progress word(std::string_view text, std::string& json);
  Progress open_string(std::string_view text, std::string& json);
  Progress string(std::string_view text, std::string& json);
  Progress quoted_key(std::string_view text, std::string& json);
  Progress opening_quote(std::string_view text);
  Progress close(std::string& json);
  Progress open(Open what, char closer, char bracket, std::string& json);
  Progress name_key(std::string_view name, size_t taken, std::string& json);
  bool is_closer(char c) const;

  struct Level {
    Open what = Open::kArguments;
    char closer = 0;
    std::vector<std::string> keys;
  };

  bool python_;
  Expect expect_ = Expect::kFirstKey;
  std::vector<Level> levels_{Level{}};
  bool begun_ = false;
  std::string quote_;  // what ends the string being read
};

}  // namespace colibri::text
