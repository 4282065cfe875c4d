#include "sampling/grammar/machine.h"

#include <algorithm>

namespace colibri::sampling::grammar {
namespace {

constexpr size_t kShort = 12;                   // visits up to here are compared one by one
constexpr size_t kSeenSlots = 8 * kMaxConfigs;  // a power of two; visits are fewer than half of it
constexpr size_t kMaxVisits = 3 * kMaxConfigs;

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t h = (a ^ (b * 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
  return h ^ (h >> 29);
}

uint64_t hash_of(uint32_t a, int32_t b, uint32_t c) { return mix(mix(a, static_cast<uint32_t>(b)), c); }

}  // namespace

Machine::Machine(const Automaton& automaton) : automaton_(automaton), slots_(1024, kNoFrame), seen_(kSeenSlots) {
  frames_.reserve(slots_.size() / 2);
  todo_.reserve(64);
  visited_.reserve(64);
}

void Machine::start(Configs& out) {
  begin_set(out);
  const auto& root = automaton_.rules[automaton_.root];
  if (can_end(root.start, root.weight)) reach({root.start, 0, kNoFrame}, out);
  expand(out);
}

// Nearly always there is one place, and what it leads to reads bytes.
bool Machine::step_alone(const Config& config, uint8_t byte, Configs& out) const {
  const int32_t row = automaton_.states[config.state].row;
  if (row < 0) return false;
  const State target = automaton_.rows[static_cast<size_t>(row)][byte];
  if (target == kDead) return true;
  if (automaton_.states[target].passes) return false;
  if (can_end(target, depth_of(config.stack))) out.push_back({target, config.count, config.stack});
  return true;
}

void Machine::step(const Configs& configs, size_t begin, size_t end, uint8_t byte, Configs& out) {
  if (end - begin == 1 && step_alone(Config(configs[begin]), byte, out)) return;
  begin_set(out);
  for (size_t i = begin; i < end; ++i) {
    const Config config = configs[i];
    const int32_t row = automaton_.states[config.state].row;
    if (row >= 0) {
      const State target = automaton_.rows[static_cast<size_t>(row)][byte];
      if (target != kDead && can_end(target, depth_of(config.stack))) reach({target, config.count, config.stack}, out);
      continue;
    }
    for (const Edge& edge : automaton_.edges_of(config.state))
      if (edge.kind == Edge::kByte && byte >= edge.low && byte <= edge.high &&
          can_end(edge.target, depth_of(config.stack)))
        reach({edge.target, config.count, config.stack}, out);
  }
  expand(out);
}

void Machine::step_special(const Configs& configs, size_t begin, size_t end, TokenId token, Configs& out) {
  begin_set(out);
  for (size_t i = begin; i < end; ++i) {
    const Config config = configs[i];
    for (const Edge& edge : automaton_.edges_of(config.state))
      if (edge.kind == Edge::kSpecial && edge.value == token && can_end(edge.target, depth_of(config.stack)))
        reach({edge.target, config.count, config.stack}, out);
  }
  expand(out);
}

void Machine::begin_set(const Configs& out) {
  todo_.clear();
  visited_.clear();
  ++round_;
  set_begin_ = out.size();
}

// A place from which bytes are read, or where the text may end, belongs to the set; one that passes on is expanded.
void Machine::reach(Config config, Configs& out) {
  const Automaton::StateInfo& info = automaton_.states[config.state];
  if (!info.passes) {
    for (size_t i = set_begin_; i < out.size() && i < set_begin_ + kShort; ++i)
      if (out[i] == config) return;
    if (out.size() - set_begin_ >= kShort && !first_visit(config)) return;
    if (out.size() - set_begin_ < kMaxConfigs) out.push_back(config);
    return;
  }
  if (!first_visit(config)) return;
  if ((info.reads || is_end(config)) && out.size() - set_begin_ < kMaxConfigs) out.push_back(config);
  todo_.push_back(config);
}

void Machine::expand(Configs& out) {
  std::reverse(todo_.begin(), todo_.end());
  while (!todo_.empty()) {
    const Config config = todo_.back();
    todo_.pop_back();
    const size_t before = todo_.size();
    if (automaton_.states[config.state].accepts && config.stack != kNoFrame) {
      const Frame frame = frames_[config.stack];
      reach({frame.back, frame.count, frame.parent}, out);
    }
    for (const Edge& edge : automaton_.edges_of(config.state)) follow(config, edge, out);
    std::reverse(todo_.begin() + static_cast<std::ptrdiff_t>(before), todo_.end());  // alternatives in their order
  }
}

void Machine::follow(const Config& from, const Edge& edge, Configs& out) {
  if (edge.kind == Edge::kByte || edge.kind == Edge::kSpecial) return;
  const int depth = depth_of(from.stack);
  if (!can_end(edge.target, depth)) return;
  Config to{edge.target, from.count, from.stack};
  if (edge.kind == Edge::kCall) {
    const auto& rule = automaton_.rules[static_cast<size_t>(edge.value)];
    if (!can_end(rule.start, depth + rule.weight)) return;
    to = {rule.start, 0, intern({edge.target, from.count, from.stack, static_cast<uint8_t>(depth + rule.weight)})};
  } else if (edge.kind != Edge::kEmpty) {
    const Bounds& bounds = automaton_.bounds[static_cast<size_t>(edge.value)];
    if (edge.kind == Edge::kLeave && from.count < bounds.min) return;
    if (edge.kind == Edge::kLeave) to.count = 0;
    if (edge.kind == Edge::kCount) {
      if (bounds.max >= 0 && from.count >= bounds.max) return;
      to.count = bounds.max < 0 ? std::min(from.count + 1, bounds.min) : from.count + 1;
    }
  }
  reach(to, out);
}

// False when the place was seen in this set before, or when there is no room for more.
bool Machine::first_visit(const Config& config) {
  if (visited_.size() >= kMaxVisits) return false;
  if (visited_.size() < kShort) {
    if (std::find(visited_.begin(), visited_.end(), config) != visited_.end()) return false;
    visited_.push_back(config);
    return true;
  }
  const auto insert = [&](const Config& c, uint64_t index) {
    size_t slot = hash_of(c.state, c.count, c.stack) & (kSeenSlots - 1);
    for (; seen_[slot] >> 32 == round_; slot = (slot + 1) & (kSeenSlots - 1))
      if (visited_[seen_[slot] & 0xFFFFFFFF] == c) return false;
    seen_[slot] = uint64_t{round_} << 32 | index;
    return true;
  };
  if (visited_.size() == kShort)
    for (size_t i = 0; i < kShort; ++i) insert(visited_[i], i);
  if (!insert(config, visited_.size())) return false;
  visited_.push_back(config);
  return true;
}

// ---- frames --------------------------------------------------------------------------------------------------------

size_t Machine::slot_of(const Frame& frame) const {
  size_t slot = hash_of(frame.back, frame.count, frame.parent) & (slots_.size() - 1);
  while (slots_[slot] != kNoFrame && frames_[slots_[slot]] != frame) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

uint32_t Machine::intern(const Frame& frame) {
  size_t slot = slot_of(frame);
  if (slots_[slot] != kNoFrame) return slots_[slot];
  if ((frames_.size() + 1) * 2 > slots_.size()) {
    grow_slots();
    slot = slot_of(frame);
  }
  slots_[slot] = static_cast<uint32_t>(frames_.size());
  frames_.push_back(frame);
  return slots_[slot];
}

void Machine::grow_slots() {
  slots_.assign(slots_.size() * 2, kNoFrame);
  for (uint32_t i = 0; i < frames_.size(); ++i) slots_[slot_of(frames_[i])] = i;
}

// The last frames are the last ones of their chains of slots, so that these can be emptied in the opposite order.
void Machine::rewind(size_t mark) {
  while (frames_.size() > mark) {
    slots_[slot_of(frames_.back())] = kNoFrame;
    frames_.pop_back();
  }
}

void Machine::compact(Configs& live) {
  std::vector<uint32_t> renumbered(frames_.size(), kNoFrame);
  for (const Config& config : live)
    for (uint32_t f = config.stack; f != kNoFrame && renumbered[f] == kNoFrame; f = frames_[f].parent)
      renumbered[f] = 0;
  const std::vector<Frame> old = std::move(frames_);
  frames_.clear();
  frames_.reserve(old.size());
  std::fill(slots_.begin(), slots_.end(), kNoFrame);
  for (size_t i = 0; i < old.size(); ++i) {  // parents come before their children
    if (renumbered[i] == kNoFrame) continue;
    Frame frame = old[i];
    if (frame.parent != kNoFrame) frame.parent = renumbered[frame.parent];
    renumbered[i] = intern(frame);
  }
  for (Config& config : live)
    if (config.stack != kNoFrame) config.stack = renumbered[config.stack];
}

}  // namespace colibri::sampling::grammar
