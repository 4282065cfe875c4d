#include "sampling/grammar/heights.h"

#include <algorithm>
#include <utility>

namespace colibri::sampling::grammar {
namespace {

constexpr uint8_t kNone = 255;

// Dijkstra's algorithm backwards from the states that accept, where a way is as long as the deepest nesting on it.
class Heights {
 public:
  explicit Heights(Automaton& automaton) : automaton_(automaton) {
    const size_t n = automaton.states.size() - 1;
    source_.resize(automaton.edges.size());
    first_.resize(n + 1);
    each_arrival([this](State to, uint32_t, State) { ++first_[to]; });
    uint32_t sum = 0;
    for (uint32_t& first : first_) first = std::exchange(sum, sum + first);
    arrivals_.resize(sum);
    std::vector<uint32_t> next = first_;
    each_arrival([&](State to, uint32_t edge, State from) {
      source_[edge] = from;
      arrivals_[next[to]++] = edge;
    });
  }

  void run() {
    for (State s = 0; s + 1 < automaton_.states.size(); ++s)
      if (automaton_.states[s].accepts) levels_[0].push_back(s);
    for (level_ = 0; level_ <= kMaxNesting; ++level_) {
      std::vector<State>& todo = levels_[level_];
      while (!todo.empty()) {
        const State s = todo.back();
        todo.pop_back();
        if (automaton_.states[s].height == kNone) settle(s);
      }
    }
  }

 private:
  // Calls visit(to, edge, from) for every edge and for each state whose height its source's follows from.
  template <typename Visit>
  void each_arrival(Visit visit) {
    for (State from = 0; from + 1 < automaton_.states.size(); ++from) {
      for (uint32_t e = automaton_.states[from].first_edge; e < automaton_.states[from + 1].first_edge; ++e) {
        const Edge& edge = automaton_.edges[e];
        visit(edge.target, e, from);
        if (edge.kind == Edge::kCall) visit(automaton_.rules[static_cast<size_t>(edge.value)].start, e, from);
      }
    }
  }

  void settle(State s) {
    automaton_.states[s].height = static_cast<uint8_t>(level_);
    for (uint32_t i = first_[s]; i < first_[s + 1]; ++i) {
      const Edge& edge = automaton_.edges[arrivals_[i]];
      const int height = height_through(edge);
      if (height <= kMaxNesting) levels_[static_cast<size_t>(height)].push_back(source_[arrivals_[i]]);
    }
  }

  int height_through(const Edge& edge) const {
    const int after = automaton_.states[edge.target].height;
    if (edge.kind != Edge::kCall) return after;
    const auto& rule = automaton_.rules[static_cast<size_t>(edge.value)];
    return std::max(after, automaton_.states[rule.start].height + rule.weight);
  }

  Automaton& automaton_;
  std::vector<State> source_;       // per edge
  std::vector<uint32_t> first_;     // per state, into arrivals_
  std::vector<uint32_t> arrivals_;  // edges
  std::array<std::vector<State>, kMaxNesting + 1> levels_;
  size_t level_ = 0;
};

// How many places each state leads to before the next byte, counted no further than the limit. The recursion is as deep
// as rules begin with calls of other rules, which the compilers of constraints bound.
class Widths {
 public:
  explicit Widths(const Automaton& automaton)
      : automaton_(automaton), seen_(automaton.states.size()), of_rule_(automaton.rules.size()) {}

  size_t width(State start) {
    const uint32_t round = ++round_;
    std::vector<State> todo(1, start);
    size_t width = 0;
    while (!todo.empty() && width < kTooWide) {
      const State s = todo.back();
      todo.pop_back();
      if (std::exchange(seen_[s], round) == round || automaton_.states[s].height == kNone) continue;
      ++width;
      for (const Edge& edge : automaton_.edges_of(s)) {
        if (edge.kind == Edge::kCall) width = std::min(width + rule_width(static_cast<size_t>(edge.value)), kTooWide);
        if (edge.kind >= Edge::kEmpty) todo.push_back(edge.target);
      }
    }
    return std::min(width, kTooWide);
  }

  static constexpr size_t kTooWide = kMaxConfigs / 2 + 1;

 private:
  size_t rule_width(size_t rule) {
    if (of_rule_[rule] != 0) return of_rule_[rule];
    of_rule_[rule] = kTooWide;  // what it is when it begins with itself
    return of_rule_[rule] = width(automaton_.rules[rule].start);
  }

  const Automaton& automaton_;
  std::vector<uint32_t> seen_;
  std::vector<size_t> of_rule_;  // 0: not known yet
  uint32_t round_ = 0;
};

}  // namespace

Status measure(Automaton& automaton) {
  for (const auto& rule : automaton.rules)
    if (rule.start == kDead) return Error{ErrorCode::kUsage, "a part of it is never defined"};
  Heights(automaton).run();
  if (automaton.states[automaton.rules[automaton.root].start].height == kNone) {
    return Error{ErrorCode::kUsage,
                 "no answer satisfies it (within " + std::to_string(kMaxNesting) + " levels of objects and arrays)"};
  }
  Widths widths(automaton);
  for (State s = 0; s + 1 < automaton.states.size(); ++s) {
    if (automaton.states[s].passes && widths.width(s) == Widths::kTooWide) {
      return Error{
          ErrorCode::kUsage,
          "more than " + std::to_string(kMaxConfigs / 2) +
              " alternatives (or optional properties in a row) at one place, or a part that begins with itself"};
    }
  }
  return {};
}

}  // namespace colibri::sampling::grammar
