#include "sampling/grammar/automaton.h"

#include <algorithm>

#include "sampling/grammar/heights.h"

namespace colibri::sampling::grammar {
namespace {

constexpr size_t kMaxEdges = 4 * kMaxStates;
constexpr size_t kMaxRows = 2048;
constexpr size_t kManyEdges = 4;  // so many are found faster in a row

bool is_plain_lead(unsigned byte) {
  return byte >= 0x20 && byte != '"' && byte != '\\' && !(byte >= 0x80 && byte < 0xC2);
}

void describe(Automaton& automaton, State s) {
  Automaton::StateInfo& info = automaton.states[s];
  info.passes = info.accepts;
  for (const Edge& edge : automaton.edges_of(s)) {
    const bool reads = edge.kind == Edge::kByte || edge.kind == Edge::kSpecial;
    (reads ? info.reads : info.passes) = true;
    if (edge.kind != Edge::kByte) continue;
    for (unsigned byte = edge.low; byte <= edge.high && !info.reads_plain; ++byte)
      info.reads_plain = is_plain_lead(byte);
  }
}

// Where one byte leads to two states there is no row.
void add_row(Automaton& automaton, State s) {
  const auto edges = automaton.edges_of(s);
  if (edges.size() < kManyEdges || automaton.rows.size() >= kMaxRows) return;
  std::array<State, 256> row;
  row.fill(kDead);
  for (const Edge& edge : edges) {
    if (edge.kind != Edge::kByte) continue;
    for (unsigned byte = edge.low; byte <= edge.high; ++byte) {
      if (row[byte] != kDead && row[byte] != edge.target) return;
      row[byte] = edge.target;
    }
  }
  automaton.states[s].row = static_cast<int32_t>(automaton.rows.size());
  automaton.rows.push_back(row);
}

}  // namespace

State AutomatonBuilder::state() {
  if (n_states_ >= kMaxStates) {
    full_ = true;
    return 0;
  }
  return n_states_++;
}

Rule AutomatonBuilder::rule(State start, bool nests) {
  if (rules_.size() >= kMaxStates) {
    full_ = true;
    return 0;
  }
  rules_.push_back({start, static_cast<uint8_t>(nests ? 1 : 0)});
  return static_cast<Rule>(rules_.size() - 1);
}

int32_t AutomatonBuilder::bounds(int64_t min, int64_t max) {
  bounds_.push_back(
      {static_cast<int32_t>(std::min(min, kUnlimited)), max < 0 || max > kUnlimited ? -1 : static_cast<int32_t>(max)});
  return static_cast<int32_t>(bounds_.size() - 1);
}

void AutomatonBuilder::add(State from, Edge edge) {
  if (edges_.size() >= kMaxEdges) full_ = true;
  if (!full_) edges_.emplace_back(from, edge);
}

void AutomatonBuilder::bytes(State from, unsigned low, unsigned high, State to) {
  add(from, {Edge::kByte, static_cast<uint8_t>(low), static_cast<uint8_t>(high), to, 0});
}

State AutomatonBuilder::call(State from, Rule rule) {
  const State to = state();
  call(from, rule, to);
  return to;
}

State AutomatonBuilder::text(State from, std::string_view text) {
  for (const char c : text) {
    const State to = state();
    bytes(from, static_cast<uint8_t>(c), static_cast<uint8_t>(c), to);
    from = to;
  }
  return from;
}

Result<Automaton> AutomatonBuilder::build(Rule root) {
  if (full_) return Error{ErrorCode::kUsage, "it is too large (more than " + std::to_string(kMaxStates) + " states)"};
  Automaton automaton;
  automaton.root = root;
  automaton.rules = rules_;
  automaton.bounds = bounds_;
  automaton.states.resize(n_states_ + 1);
  std::stable_sort(edges_.begin(), edges_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t at = 0;
  for (State s = 0; s <= n_states_; ++s) {
    automaton.states[s].first_edge = static_cast<uint32_t>(at);
    while (at < edges_.size() && edges_[at].first == s) automaton.edges.push_back(edges_[at++].second);
  }
  for (const State s : accepting_) automaton.states[s].accepts = true;
  for (const Loop& loop : loops_) {
    automaton.states[loop.at].plain_loop = true;
    automaton.states[loop.at].loop_bounds = loop.bounds;
    automaton.states[loop.at].loop_except = loop.except;
  }
  for (State s = 0; s < n_states_; ++s) describe(automaton, s);
  for (State s = 0; s < n_states_; ++s) add_row(automaton, s);
  COLIBRI_TRY(measure(automaton));
  return automaton;
}

}  // namespace colibri::sampling::grammar
