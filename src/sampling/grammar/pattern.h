// Patterns: regular expressions of JSON Schema as deterministic automata on characters, and strings that follow them.
//
// A subset of ECMA-262: literals, escapes, classes, ".", groups, alternatives, quantifiers, "^" and "$" at the ends of
// the whole or of an alternative of the whole. As JSON Schema says, a pattern without them matches anywhere in the
// string. \d, \w are ASCII. Thread-safety: free functions and plain values.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "sampling/grammar/automaton.h"

namespace colibri::sampling::grammar {

/// An automaton that reads characters; state 0 is its start. A state's edges do not overlap.
struct CharacterAutomaton {
  struct Edge {
    char32_t low, high;  // inclusive
    uint32_t target;
  };
  struct Node {
    std::vector<Edge> edges;  // in the order of the characters
    bool accepts = false;
  };
  std::vector<Node> nodes;
};

/// kUsage says what in the pattern is not supported, or that it is too large.
Result<CharacterAutomaton> compile_pattern(std::string_view pattern);

/// The strings of `automaton` that have `min` to `max` characters (max < 0: no bound). kUsage: too large.
Result<CharacterAutomaton> with_length(const CharacterAutomaton& automaton, int64_t min, int64_t max);

/// Every string without characters that JSON escapes, except the `names`.
CharacterAutomaton all_except(const std::vector<std::string_view>& names);

/// Adds the strings, quoted and escaped, from `from` on; returns the state behind.
State add_string(AutomatonBuilder& builder, const CharacterAutomaton& strings, State from);

}  // namespace colibri::sampling::grammar
