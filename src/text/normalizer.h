// Normalizer: what a tokenizer does to text before it is cut into pieces.
//
// Ownership: a value. Thread-safety: const functions may run in several threads, each with its own RegexWorkspace.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/pattern.h"
#include "text/unicode.h"

namespace colibri::text {

class Normalizer {
 public:
  /// The member "normalizer" of a tokenizer.json; null or absent does nothing. Errors name what is not supported.
  static Result<Normalizer> parse(const Json* json);
  static Normalizer normal_form(NormalForm form);

  /// REQUIRES: valid UTF-8.
  void apply(std::string& text, RegexWorkspace& workspace) const;

 private:
  struct Lowercase {};
  struct StripAccents {};
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Prepend {
    std::string content;
  };
  struct Strip {
    bool left, right;
  };
  using Step = std::variant<NormalForm, Lowercase, StripAccents, Replace, Prepend, Strip>;

  static Result<Step> parse_step(const Json& json);
  struct Apply;

  std::vector<Step> steps_;
};

}  // namespace colibri::text
