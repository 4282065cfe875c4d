// Automaton: the texts that a constraint allows, as rules that call each other (a recursive transition network on
// bytes), and AutomatonBuilder, which makes one.
//
// A rule is entered at its start and left at a state that accepts. Between them, edges read a byte, read a special
// token, call another rule, or read nothing. A rule may count its rounds (characters of a string, items of an array):
// an edge of kind kCount is open while fewer than its maximum were begun, one of kind kLeave from its minimum on.
//
// Invariant of a built automaton: `height` of a state is how many more levels of objects and arrays the shortest way
// through the rest of its rule opens; a run that never exceeds kMaxNesting by it can always reach an end.
// Thread-safety: an Automaton is immutable.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"

namespace colibri::sampling::grammar {

using State = uint32_t;
using Rule = uint32_t;

inline constexpr int kMaxNesting = 64;         ///< levels of objects and arrays in an answer
inline constexpr size_t kMaxStates = 1 << 17;  ///< of one automaton
inline constexpr size_t kMaxConfigs = 1024;    ///< places in the automaton at which one text may be at once
inline constexpr State kDead = std::numeric_limits<State>::max();
inline constexpr int64_t kUnlimited = 1'000'000'000;  ///< a maximum beyond this is none

struct Edge {
  enum Kind : uint8_t { kByte, kSpecial, kCall, kEmpty, kCount, kLeave };
  Kind kind;
  uint8_t low, high;  ///< kByte: inclusive
  State target;       ///< kCall: where to go on after the rule
  int32_t value;      ///< kSpecial: the token; kCall: the rule; kCount, kLeave: index into bounds
};

/// How many rounds: once `min` is reached without a maximum, rounds are no longer counted.
struct Bounds {
  int32_t min, max;  ///< max < 0: none
};

struct Automaton {
  struct StateInfo {
    uint32_t first_edge;
    int32_t row = -1;          ///< into rows: the targets of its bytes, where they are many and each has one
    uint8_t height = 255;      ///< 255: no end can be reached
    bool accepts = false;      ///< the rule may end here
    bool passes = false;       ///< has edges other than bytes and special tokens, or accepts: must be expanded
    bool reads = false;        ///< has edges of bytes or special tokens
    bool reads_plain = false;  ///< a plain character can begin here
    bool plain_loop = false;   ///< any plain character leads back here
    int32_t loop_bounds = -1;  ///< the bounds of the kCount edge in front of the loop; -1: not counted
    int16_t loop_except = -1;  ///< this byte (ASCII) alone leads elsewhere; -1: none does
  };
  struct RuleInfo {
    State start;
    uint8_t weight;  ///< 1: an object or an array
  };
  std::vector<StateInfo> states;  ///< one more than there are, for its first_edge
  std::vector<Edge> edges;
  std::vector<RuleInfo> rules;
  std::vector<Bounds> bounds;
  std::vector<std::array<State, 256>> rows;
  Rule root = 0;

  std::span<const Edge> edges_of(State s) const {
    return {edges.data() + states[s].first_edge, states[s + 1].first_edge - states[s].first_edge};
  }
};

class AutomatonBuilder {
 public:
  /// Once the automaton has kMaxStates, nothing is added any more and build() fails: callers that make many states in
  /// a loop may stop early.
  bool full() const { return full_; }

  State state();
  void accept(State s) { accepting_.push_back(s); }
  Rule rule(State start, bool nests);
  /// A rule that gets its start later: for rules that call themselves.
  Rule declare(bool nests) { return rule(kDead, nests); }
  void define(Rule rule, State start) { rules_[rule].start = start; }
  int32_t bounds(int64_t min, int64_t max);  ///< max < 0 or above kUnlimited: none

  void bytes(State from, unsigned low, unsigned high, State to);
  void special(State from, TokenId token, State to) { add(from, {Edge::kSpecial, 0, 0, to, token}); }
  void empty(State from, State to) { add(from, {Edge::kEmpty, 0, 0, to, 0}); }
  void count(State from, int32_t bounds, State to) { add(from, {Edge::kCount, 0, 0, to, bounds}); }
  void leave(State from, int32_t bounds, State to) { add(from, {Edge::kLeave, 0, 0, to, bounds}); }
  State call(State from, Rule rule);  ///< returns where it goes on
  void call(State from, Rule rule, State to) { add(from, {Edge::kCall, 0, 0, to, static_cast<int32_t>(rule)}); }
  State text(State from, std::string_view bytes);  ///< returns the state behind it
  /// From `at` any plain character, other than `except`, leads to a state that leads back to `at` without reading: `at`
  /// itself, or one with a kCount edge of these bounds.
  void mark_plain_loop(State at, int32_t bounds = -1, int except = -1) {
    loops_.push_back({at, bounds, static_cast<int16_t>(except)});
  }

  /// kUsage: too large, no text is allowed, or it would need more than kMaxNesting levels.
  Result<Automaton> build(Rule root);

 private:
  struct Loop {
    State at;
    int32_t bounds;
    int16_t except;
  };
  void add(State from, Edge edge);

  std::vector<std::pair<State, Edge>> edges_;
  std::vector<State> accepting_;
  std::vector<Automaton::RuleInfo> rules_;
  std::vector<Bounds> bounds_;
  std::vector<Loop> loops_;
  State n_states_ = 0;
  bool full_ = false;
};

/// Adds `low` to `high` (code points) as UTF-8 from `from` to `to`. Surrogates among them are left out.
void add_code_points(AutomatonBuilder& builder, State from, char32_t low, char32_t high, State to);

}  // namespace colibri::sampling::grammar
