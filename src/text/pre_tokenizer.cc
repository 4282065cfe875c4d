#include "text/pre_tokenizer.h"

#include <algorithm>

namespace colibri::text {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

/// Builds the next text of `pieces` piece by piece.
class Rewriter {
 public:
  explicit Rewriter(Pieces& pieces) : pieces_(pieces) { text_.reserve(pieces.text.size() + pieces.spans.size()); }
  ~Rewriter() { pieces_.text = std::move(text_); }

  /// Rewrites each piece: change(piece, is at the start of the text, out) appends to out.
  template <typename Change>
  void each(Change change) {
    for (Pieces::Span& span : pieces_.spans) {
      const size_t begin = text_.size();
      change(pieces_.view(span), pieces_.at_start && span.begin == 0, text_);
      span = {begin, text_.size()};
    }
  }

 private:
  Pieces& pieces_;
  std::string text_;
};

}  // namespace

/// One piece as alternating stretches, matched and not, and the rule that makes new pieces of them.
struct PreTokenizer::Matches {
  struct Stretch {
    Pieces::Span span;
    bool match;
  };
  std::vector<Stretch> stretches;

  void find(const Split& step, std::string_view piece, size_t offset, RegexWorkspace& workspace) {
    stretches.clear();
    size_t done = 0;
    step.pattern.for_each_match(piece, workspace, [&](size_t begin, size_t end) {
      if (done != begin) stretches.push_back({{offset + done, offset + begin}, step.invert});
      stretches.push_back({{offset + begin, offset + end}, !step.invert});
      done = end;
    });
    if (done != piece.size()) stretches.push_back({{offset + done, offset + piece.size()}, step.invert});
  }

  void apply(Behavior behavior, std::vector<Pieces::Span>& out) {
    if (behavior == Behavior::kMergedWithNext) merge_with_next();
    const size_t first = out.size();
    bool previous = false;
    for (const auto& [span, match] : stretches) {
      if (behavior == Behavior::kRemoved && match) continue;
      const bool join = (behavior == Behavior::kContiguous && match == previous) ||
                        (behavior == Behavior::kMergedWithPrevious && match && !previous);
      previous = match;
      if (join && out.size() > first) {
        out.back().end = span.end;
      } else if (span.begin != span.end) {
        out.push_back(span);
      }
    }
  }

  /// A match goes to the stretch behind it, unless that is a match too.
  void merge_with_next() {
    std::vector<Stretch> merged;
    bool next = false;
    for (auto it = stretches.rbegin(); it != stretches.rend(); ++it) {
      if (it->match && !next && !merged.empty()) {
        merged.back().span.begin = it->span.begin;
      } else {
        merged.push_back(*it);
      }
      next = it->match;
    }
    std::reverse(merged.begin(), merged.end());
    stretches = std::move(merged);
  }
};

struct PreTokenizer::Apply {
  Pieces& pieces;
  RegexWorkspace& workspace;

  void operator()(const Split& step) const {
    std::vector<Pieces::Span> out;
    out.reserve(pieces.spans.size() + pieces.text.size() / 4);
    Matches matches;
    for (const Pieces::Span span : pieces.spans) {
      matches.find(step, pieces.view(span), span.begin, workspace);
      matches.apply(step.behavior, out);
    }
    pieces.spans = std::move(out);
  }

  void operator()(PrefixBlank) const {
    Rewriter(pieces).each([](std::string_view piece, bool, std::string& out) {
      if (!starts_with(piece, " ")) out.push_back(' ');
      out.append(piece);
    });
  }

  void operator()(const Metaspace& step) const {
    Rewriter(pieces).each([&](std::string_view piece, bool at_start, std::string& out) {
      const bool marked = starts_with(piece, step.mark) || starts_with(piece, " ");
      const bool wanted = step.scheme == PrependScheme::kAlways || (step.scheme == PrependScheme::kFirst && at_start);
      if (wanted && !marked) out.append(step.mark);
      for (const char c : piece) c == ' ' ? out.append(step.mark) : out.append(1, c);
    });
    if (step.split) (*this)(Split{Pattern::literal(step.mark), Behavior::kMergedWithNext, false});
  }
};

Result<PreTokenizer::Behavior> PreTokenizer::parse_behavior(const Json& json, Behavior fallback) {
  const Json* name = json.find_value("behavior");
  if (!name) return fallback;
  if (*name == Json("Isolated")) return Behavior::kIsolated;
  if (*name == Json("Removed")) return Behavior::kRemoved;
  if (*name == Json("MergedWithPrevious")) return Behavior::kMergedWithPrevious;
  if (*name == Json("MergedWithNext")) return Behavior::kMergedWithNext;
  if (*name == Json("Contiguous")) return Behavior::kContiguous;
  return Error{ErrorCode::kUnsupported, "pre-tokenizer " + component_type(json) + ": behavior " + name->dump()};
}

Status PreTokenizer::add_split(const Json& json) {
  const Json* pattern_json = json.find("pattern");
  COLIBRI_ASSIGN(auto pattern, Pattern::parse(pattern_json ? *pattern_json : Json()));
  COLIBRI_ASSIGN(const Behavior behavior, parse_behavior(json, Behavior::kIsolated));
  steps_.emplace_back(Split{std::move(pattern), behavior, flag(json, "invert", false)});
  return {};
}

Status PreTokenizer::add_regex(std::string_view pattern, Behavior behavior, bool invert) {
  COLIBRI_ASSIGN(auto compiled, Pattern::regex(pattern));
  steps_.emplace_back(Split{std::move(compiled), behavior, invert});
  return {};
}

Status PreTokenizer::add_byte_level(const Json& json) {
  if (flag(json, "add_prefix_space", true)) steps_.emplace_back(PrefixBlank{});
  if (flag(json, "use_regex", true)) COLIBRI_TRY(add_regex(kGpt2, Behavior::kIsolated));
  byte_level_ = true;
  return {};
}

Status PreTokenizer::add_metaspace(const Json& json) {
  COLIBRI_ASSIGN(std::string mark, character_member(json, "replacement"));
  COLIBRI_ASSIGN(const PrependScheme scheme, prepend_scheme(json));
  steps_.emplace_back(Metaspace{std::move(mark), scheme, flag(json, "split", true)});
  return {};
}

Status PreTokenizer::add(const Json& json) {
  const std::string type = component_type(json);
  if (byte_level_) return Error{ErrorCode::kUnsupported, "pre-tokenizer " + type + " after ByteLevel is not supported"};
  if (type == "Split") return add_split(json);
  if (type == "ByteLevel") return add_byte_level(json);
  if (type == "Metaspace") return add_metaspace(json);
  if (type == "Digits") {
    const bool each = flag(json, "individual_digits", false);
    return add_regex(R"(\p{N})", each ? Behavior::kIsolated : Behavior::kContiguous);
  }
  if (type == "Punctuation") {
    COLIBRI_ASSIGN(const Behavior behavior, parse_behavior(json, Behavior::kIsolated));
    return add_regex(R"([\p{P}!-/:-@\[-`{-~])", behavior);
  }
  if (type == "Whitespace") return add_regex(R"(\w+|[^\w\s]+)", Behavior::kRemoved, true);
  if (type == "CharDelimiterSplit") {
    COLIBRI_ASSIGN(std::string delimiter, character_member(json, "delimiter"));
    steps_.emplace_back(Split{Pattern::literal(std::move(delimiter)), Behavior::kRemoved, false});
    return {};
  }
  if (type == "WhitespaceSplit") return add_regex(R"(\s)", Behavior::kRemoved);
  return unsupported_component("pre-tokenizer", json);
}

Result<PreTokenizer> PreTokenizer::parse(const Json* json) {
  COLIBRI_ASSIGN(const auto parts, flatten(json, "pretokenizers"));
  PreTokenizer out;
  for (const Json* part : parts) COLIBRI_TRY(out.add(*part));
  return out;
}

Result<PreTokenizer> PreTokenizer::isolating(const std::vector<std::string_view>& patterns, bool byte_level) {
  PreTokenizer out;
  for (const std::string_view pattern : patterns) COLIBRI_TRY(out.add_regex(pattern, Behavior::kIsolated));
  out.byte_level_ = byte_level;
  return out;
}

void PreTokenizer::split(Pieces& pieces, RegexWorkspace& workspace) const {
  pieces.spans.clear();
  if (!pieces.text.empty()) pieces.spans.push_back({0, pieces.text.size()});
  for (const Step& step : steps_) std::visit(Apply{pieces, workspace}, step);
}

}  // namespace colibri::text
