// Pattern: what Split and Replace search for, a plain string or a regular expression.
//
// Thread-safety: const functions may run in several threads, each with its own RegexWorkspace.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/regex.h"

namespace colibri::text {

class Pattern {
 public:
  /// {"String": "..."} or {"Regex": "..."}.
  static Result<Pattern> parse(const Json& json);
  static Pattern literal(std::string text) { return Pattern(std::move(text), std::nullopt); }
  static Result<Pattern> regex(std::string_view pattern);

  /// Calls visit(begin, end) for each match in `text`, from left to right. REQUIRES: valid UTF-8.
  template <typename Visit>
  void for_each_match(std::string_view text, RegexWorkspace& workspace, Visit visit) const;

  /// `text` with `content` in place of each match. False: there is none.
  bool replace(std::string& text, std::string_view content, RegexWorkspace& workspace) const;

  /// The string searched for, or nullptr for a regular expression.
  const std::string* as_literal() const { return regex_ ? nullptr : &literal_; }

 private:
  Pattern(std::string literal, std::optional<Regex> regex) : literal_(std::move(literal)), regex_(std::move(regex)) {}
  std::string literal_;
  std::optional<Regex> regex_;
};

template <typename Visit>
void Pattern::for_each_match(std::string_view text, RegexWorkspace& workspace, Visit visit) const {
  if (regex_) {
    RegexSearch search(*regex_, text, workspace);
    for (Regex::Match match{}; search.next(match);) visit(match.begin, match.end);
  } else if (!literal_.empty()) {
    for (size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos; at += literal_.size()) {
      visit(at, at + literal_.size());
    }
  }
}

}  // namespace colibri::text
