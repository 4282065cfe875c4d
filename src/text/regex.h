// Regex: a compiled pattern (PCRE2 with JIT) that gives its matches as Hugging Face `tokenizers` counts them.
//
// Ownership: a value over a shared compiled pattern. Thread-safety: const functions may run in several threads, each
// with its own RegexWorkspace.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace colibri::text {

/// Memory that matching needs; reused from match to match.
class RegexWorkspace {
 public:
  RegexWorkspace();
  ~RegexWorkspace();
  RegexWorkspace(const RegexWorkspace&) = delete;
  RegexWorkspace& operator=(const RegexWorkspace&) = delete;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

class Regex {
 public:
  /// `pattern`: in Oniguruma's syntax. Errors name the pattern.
  static Result<Regex> compile(std::string_view pattern);

  struct Match {
    size_t begin, end;
  };

  struct Code;

 private:
  friend class RegexSearch;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

/// The matches in one text, from left to right. An empty match right behind the last match does not count.
/// A match that would exceed PCRE2's limits ends the search, as if nothing matched from there on.
class RegexSearch {
 public:
  /// REQUIRES: valid UTF-8; all three outlive the search.
  RegexSearch(const Regex& regex, std::string_view text, RegexWorkspace& workspace);
  /// False when there is no further match.
  bool next(Regex::Match& match);

 private:
  bool match_at(size_t start, Regex::Match& match);

  const Regex::Code& code_;
  std::string_view text_;
  RegexWorkspace::State& workspace_;
  size_t position_ = 0;
  size_t last_end_ = static_cast<size_t>(-1);
};

}  // namespace colibri::text
