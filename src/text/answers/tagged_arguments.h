// TaggedArguments: one tag per parameter with its value as it is, as Qwen3-Coder, GLM, MiniMax and DeepSeek V3.2 write.
//
// A value whose type can only be a string is given as it comes; any other is held until it ends, since only then is it
// known whether it is JSON. A closing tag counts only where the call can go on after it, so that values may hold the
// same characters. Thread-safety: none.
#pragma once

#include <string>
#include <vector>

#include "text/answers/arguments.h"
#include "text/answers/pattern.h"
#include "text/answers/value_types.h"

namespace colibri::text {

class TaggedArguments final : public ArgumentReader {
 public:
  TaggedArguments(const CallForm& form, const Json* schema);
  Progress read(std::string_view text, std::string& json) override;
  void finish(std::string_view text, std::string& json) override;

 private:
  Progress between(std::string_view text, std::string& json);
  Progress value(std::string_view text, std::string& json);
  Progress streamed_value(std::string_view text, std::string& json);
  Progress held_value(std::string_view text, std::string& json);
  void begin_value(const Match& head, std::string& json);
  /// Where the value ends: at a closing tag after which the call goes on. kPartial: not before `size`.
  struct End {
    Match::State state;
    size_t size;
  };
  End end_of_value(std::string_view text, size_t from) const;
  Match::State goes_on(std::string_view text) const;
  std::string_view trimmed(std::string_view raw, bool whole) const;
  void give_held(std::string_view raw, bool whole, std::string& json) const;

  const CallForm& form_;
  const Json* schema_;
  std::string_view closer_;  // of a value, without the blanks around it
  bool in_value_ = false, at_start_ = false;
  ValueTypes types_;
  size_t settled_ = 0;  // bytes of a held value in which it certainly does not end
  std::vector<std::string> keys_;
};

}  // namespace colibri::text
