// PreTokenizer: cuts normalised text into the pieces that BPE works on, one by one.
//
// Ownership: a value. Thread-safety: const functions may run in several threads, each with its own Pieces and
// workspace.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/component.h"
#include "text/pattern.h"

namespace colibri::text {

/// A text and the pieces it is cut into, in order, none of them empty.
struct Pieces {
  struct Span {
    size_t begin, end;
  };
  std::string text;
  std::vector<Span> spans;
  bool at_start = true;  ///< the text stands at the beginning of what is tokenized

  std::string_view view(Span span) const { return std::string_view(text).substr(span.begin, span.end - span.begin); }
};

class PreTokenizer {
 public:
  /// The member "pre_tokenizer" of a tokenizer.json; null or absent cuts nothing. Errors name what is not supported.
  static Result<PreTokenizer> parse(const Json* json);
  /// Each pattern's matches isolated in turn; `byte_level`: BPE is to work on bytes.
  static Result<PreTokenizer> isolating(const std::vector<std::string_view>& patterns, bool byte_level);

  /// Cuts `pieces`, which holds the whole text as its only piece.
  void split(Pieces& pieces, RegexWorkspace& workspace) const;

  /// Whether BPE is to work on bytes, spelled with the byte-level letters, instead of characters.
  bool is_byte_level() const { return byte_level_; }

 private:
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Split {
    Pattern pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
  };
  struct PrefixBlank {};  // a blank in front of each piece that has none
  struct Metaspace {
    std::string mark;
    PrependScheme scheme;
    bool split;
  };
  using Step = std::variant<Split, PrefixBlank, Metaspace>;
  struct Matches;
  struct Apply;

  static Result<Behavior> parse_behavior(const Json& json, Behavior fallback);
  Status add(const Json& json);
  Status add_split(const Json& json);
  Status add_regex(std::string_view pattern, Behavior behavior, bool invert = false);
  Status add_byte_level(const Json& json);
  Status add_metaspace(const Json& json);

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace colibri::text
