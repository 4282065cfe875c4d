#include "sampling/grammar/pattern.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "sampling/grammar/json_rules.h"
#include "sampling/grammar/pattern_syntax.h"
#include "text/utf8.h"

namespace colibri::sampling::grammar {
namespace {

constexpr size_t kMaxPatternStates = 20'000;
constexpr size_t kMaxWork = 10'000'000;  // steps of the subset construction

Error too_large() { return {ErrorCode::kUsage, "is too large"}; }

// Thompson's construction: each state has edges that read nothing, and at most one set that it reads.
struct Nondeterministic {
  struct Node {
    std::vector<uint32_t> empty;
    const CharacterSet* set = nullptr;
    uint32_t target = 0;
  };
  std::vector<Node> nodes;

  uint32_t node() {
    nodes.emplace_back();
    return static_cast<uint32_t>(nodes.size() - 1);
  }
  bool full() const { return nodes.size() > kMaxPatternStates; }

  // From `from` on; returns where the pattern ends.
  uint32_t add(const PatternNode& pattern, uint32_t from) {
    if (full()) return from;
    switch (pattern.kind) {
      case PatternNode::kSet: {
        const uint32_t at = node(), to = node();
        nodes[from].empty.push_back(at);
        nodes[at].set = &pattern.set;
        nodes[at].target = to;
        return to;
      }
      case PatternNode::kSequence:
        for (const PatternNode& part : pattern.parts) from = add(part, from);
        return from;
      case PatternNode::kChoice: {
        const uint32_t to = node();
        for (const PatternNode& part : pattern.parts) {
          const uint32_t begin = node();
          nodes[from].empty.push_back(begin);
          const uint32_t end = add(part, begin);
          nodes[end].empty.push_back(to);
        }
        return to;
      }
      case PatternNode::kRepeat:
        return add_repeat(pattern, from);
    }
    return from;
  }

  uint32_t add_repeat(const PatternNode& pattern, uint32_t from) {
    const PatternNode& part = pattern.parts[0];
    for (int i = 0; i < pattern.min && !full(); ++i) from = add(part, from);
    const uint32_t end = node();
    nodes[from].empty.push_back(end);
    if (pattern.max < 0) {
      const uint32_t again = node();
      nodes[from].empty.push_back(again);
      const uint32_t behind = add(part, again);
      nodes[behind].empty.push_back(again);
      nodes[behind].empty.push_back(end);
    }
    for (int i = pattern.min; i < pattern.max && !full(); ++i) {
      from = add(part, from);
      nodes[from].empty.push_back(end);
    }
    return end;
  }
};

// The subset construction over ranges of characters that no set of the pattern tells apart.
class Subsets {
 public:
  Subsets(const Nondeterministic& pattern, uint32_t end) : pattern_(pattern), end_(end), seen_(pattern.nodes.size()) {
    for (const auto& node : pattern.nodes) {
      if (!node.set) continue;
      for (const auto& [low, high] : node.set->ranges) {
        borders_.push_back(low);
        borders_.push_back(high + 1);
      }
    }
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  }

  Result<CharacterAutomaton> run(uint32_t start) {
    number({start});
    for (uint32_t i = 0; i < sets_.size(); ++i) {
      const std::vector<uint32_t> set = *sets_[i];
      for (size_t b = 0; b + 1 < borders_.size(); ++b) {
        add_edge(i, set, borders_[b], borders_[b + 1] - 1);
        if (work_ > kMaxWork || sets_.size() > kMaxPatternStates) return too_large();
      }
    }
    return std::move(out_);
  }

 private:
  void add_edge(uint32_t from, const std::vector<uint32_t>& set, char32_t low, char32_t high) {
    std::vector<uint32_t> targets;
    work_ += set.size() + 1;
    for (const uint32_t n : set)
      if (const auto& node = pattern_.nodes[n]; node.set && contains(*node.set, low)) targets.push_back(node.target);
    if (targets.empty()) return;
    const uint32_t to = number(std::move(targets));
    auto& edges = out_.nodes[from].edges;
    if (!edges.empty() && edges.back().target == to && edges.back().high + 1 == low)
      edges.back().high = high;
    else
      edges.push_back({low, high, to});
  }

  static bool contains(const CharacterSet& set, char32_t c) {
    const auto after = std::upper_bound(set.ranges.begin(), set.ranges.end(), c,
                                        [](char32_t value, const auto& range) { return value < range.first; });
    return after != set.ranges.begin() && c <= std::prev(after)->second;
  }

  // The number of the set of everything that `nodes` reach without reading.
  uint32_t number(std::vector<uint32_t> nodes) {
    ++round_;
    std::vector<uint32_t> closed;
    bool accepts = false;
    while (!nodes.empty()) {
      const uint32_t n = nodes.back();
      nodes.pop_back();
      if (std::exchange(seen_[n], round_) == round_) continue;
      accepts = accepts || n == end_;
      if (pattern_.nodes[n].set || n == end_) closed.push_back(n);
      nodes.insert(nodes.end(), pattern_.nodes[n].empty.begin(), pattern_.nodes[n].empty.end());
      work_ += 1 + pattern_.nodes[n].empty.size();
    }
    std::sort(closed.begin(), closed.end());
    work_ += closed.size();
    const auto [found, is_new] = numbers_.emplace(std::move(closed), static_cast<uint32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(&found->first);
      out_.nodes.push_back({{}, accepts});
    }
    return found->second;
  }

  const Nondeterministic& pattern_;
  const uint32_t end_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 0;
  std::vector<char32_t> borders_;
  std::map<std::vector<uint32_t>, uint32_t> numbers_;
  std::vector<const std::vector<uint32_t>*> sets_;
  size_t work_ = 0;
  CharacterAutomaton out_;
};

bool is_plain(char32_t c) { return c >= 0x20 && c != '"' && c != '\\'; }

// Whether every plain character leads from the node to itself.
bool loops_on_plain(const CharacterAutomaton::Node& node, uint32_t self) {
  char32_t next = 0x20;
  for (const auto& edge : node.edges) {
    while (next < edge.low && !is_plain(next)) ++next;
    if (edge.high < next) continue;
    if (edge.low > next || edge.target != self) return false;
    next = edge.high + 1;
  }
  return next > kLastCharacter;
}

void add_characters(AutomatonBuilder& builder, State from, char32_t low, char32_t high, State to) {
  for (char32_t c = low; c <= high && c <= '\\'; ++c) {
    if (const std::string_view escape = escaped(c); !escape.empty()) builder.empty(builder.text(from, escape), to);
  }
  constexpr std::pair<char32_t, char32_t> kPlain[] = {{' ', '!'}, {'#', '['}, {']', kLastCharacter}};
  for (const auto& [first, last] : kPlain) {
    if (std::max(low, first) <= std::min(high, last))
      add_code_points(builder, from, std::max(low, first), std::min(high, last), to);
  }
}

}  // namespace

Result<CharacterAutomaton> compile_pattern(std::string_view pattern) {
  COLIBRI_ASSIGN(const PatternNode tree, parse_pattern(pattern));
  Nondeterministic automaton;
  const uint32_t start = automaton.node();
  const uint32_t end = automaton.add(tree, start);
  if (automaton.full()) return too_large();
  return Subsets(automaton, end).run(start);
}

// The product with a counter of characters, which stops at the last number that makes a difference.
Result<CharacterAutomaton> with_length(const CharacterAutomaton& automaton, int64_t min, int64_t max) {
  if (min <= 0 && max < 0) return automaton;
  CharacterAutomaton out;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> numbers;
  std::vector<std::pair<uint32_t, int64_t>> places;
  const auto number = [&](uint32_t node, int64_t count) {
    const auto [found, is_new] = numbers.emplace(std::pair(node, count), static_cast<uint32_t>(places.size()));
    if (is_new) {
      places.emplace_back(node, count);
      out.nodes.push_back({{}, automaton.nodes[node].accepts && count >= min});
    }
    return found->second;
  };
  number(0, 0);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [node, count] = places[i];
    if (places.size() > kMaxPatternStates) return too_large();
    if (max >= 0 && count >= max) continue;
    for (const auto& edge : automaton.nodes[node].edges) {
      const uint32_t target = number(edge.target, max < 0 ? std::min(count + 1, min) : count + 1);
      out.nodes[i].edges.push_back({edge.low, edge.high, target});
    }
  }
  return out;
}

CharacterAutomaton all_except(const std::vector<std::string_view>& names) {
  std::vector<std::map<char32_t, uint32_t>> children(1);
  std::vector<bool> is_name(1);
  for (const std::string_view name : names) {
    uint32_t at = 0;
    for (size_t i = 0; i < name.size();) {
      const char32_t c = text::next_character(name, i);
      const auto [found, is_new] = children[at].emplace(c, static_cast<uint32_t>(children.size()));
      at = found->second;
      if (is_new) children.emplace_back(), is_name.push_back(false);
    }
    is_name[at] = true;
  }
  const auto free = static_cast<uint32_t>(children.size());
  children.emplace_back();
  is_name.push_back(false);
  CharacterAutomaton out;
  for (size_t i = 0; i < children.size(); ++i) {
    CharacterAutomaton::Node node{{}, !is_name[i]};
    char32_t next = 0;
    const auto gap = [&](char32_t end) {  // from next to before end: only what needs no escape
      for (const auto& [low, high] : {std::pair<char32_t, char32_t>{' ', '!'}, {'#', '['}, {']', kLastCharacter}})
        if (std::max(low, next) <= high && std::max(low, next) < end)
          node.edges.push_back({std::max(low, next), std::min(high, static_cast<char32_t>(end - 1)), free});
    };
    for (const auto& [c, child] : children[i]) {
      gap(c);
      if (is_plain(c)) node.edges.push_back({c, c, child});
      next = c + 1;
    }
    gap(kLastCharacter + 1);
    out.nodes.push_back(std::move(node));
  }
  return out;
}

State add_string(AutomatonBuilder& builder, const CharacterAutomaton& strings, State from) {
  std::vector<State> states;
  states.reserve(strings.nodes.size());
  for (size_t i = 0; i < strings.nodes.size(); ++i) states.push_back(builder.state());
  builder.bytes(from, '"', '"', states[0]);
  const State end = builder.state();
  for (uint32_t i = 0; i < states.size() && !builder.full(); ++i) {
    const auto& node = strings.nodes[i];
    if (node.accepts) builder.bytes(states[i], '"', '"', end);
    for (const auto& edge : node.edges) add_characters(builder, states[i], edge.low, edge.high, states[edge.target]);
    if (loops_on_plain(node, i)) builder.mark_plain_loop(states[i]);
  }
  return end;
}

}  // namespace colibri::sampling::grammar
