// Machine: runs an automaton over bytes. It is at several places at once where a text can be read in several ways.
//
// A place (Config) is a state, the rounds counted in its rule, and the frames of the rules that called it. Frames are
// interned: equal stacks have the same number, so sets of places can be compared. Whoever walks a trie of bytes keeps
// sets of places one behind the other and gives back what a branch made (mark, rewind).
//
// Invariant: from every place an end can be reached. Where a text can be read in more than kMaxConfigs ways, the first
// of them are followed; each of those still leads to an end.
// Thread-safety: one thread at a time. Allocates while its vectors grow, which kMaxConfigs and kMaxNesting bound.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/grammar/automaton.h"

namespace colibri::sampling::grammar {

struct Config {
  State state;
  int32_t count;
  uint32_t stack;
  bool operator==(const Config& other) const = default;
};

using Configs = std::vector<Config>;

class Machine {
 public:
  /// REQUIRES: the automaton outlives the machine.
  explicit Machine(const Automaton& automaton);

  /// Appends the places where a text begins.
  void start(Configs& out);
  /// Appends where `byte` leads from the places [begin, end) of `configs`, which may be `out` itself.
  void step(const Configs& configs, size_t begin, size_t end, uint8_t byte, Configs& out);
  void step_special(const Configs& configs, size_t begin, size_t end, TokenId token, Configs& out);
  /// Whether a text may end at this place.
  bool is_end(const Config& config) const {
    return config.stack == kNoFrame && automaton_.states[config.state].accepts;
  }
  const Automaton& automaton() const { return automaton_; }

  size_t mark() const { return frames_.size(); }
  void rewind(size_t mark);
  /// Drops the frames that `live` does not need and renumbers the others.
  void compact(Configs& live);

 private:
  static constexpr uint32_t kNoFrame = 0xFFFFFFFF;
  struct Frame {
    State back;     // where to go on when the called rule ends
    int32_t count;  // of the calling rule
    uint32_t parent;
    uint8_t depth;  // levels of objects and arrays open inside the called rule
    bool operator==(const Frame& other) const = default;
  };

  bool step_alone(const Config& config, uint8_t byte, Configs& out) const;
  void begin_set(const Configs& out);
  void reach(Config config, Configs& out);
  void expand(Configs& out);
  void follow(const Config& from, const Edge& edge, Configs& out);
  bool first_visit(const Config& config);
  int depth_of(uint32_t stack) const { return stack == kNoFrame ? 0 : frames_[stack].depth; }
  bool can_end(State s, int depth) const { return automaton_.states[s].height + depth <= kMaxNesting; }
  uint32_t intern(const Frame& frame);
  size_t slot_of(const Frame& frame) const;
  void grow_slots();

  const Automaton& automaton_;
  std::vector<Frame> frames_;
  std::vector<uint32_t> slots_;  // open addressing over frames_, at most half full
  std::vector<Config> todo_;     // places still to expand
  std::vector<Config> visited_;  // of the set that is being made, those that were expanded
  std::vector<uint64_t> seen_;   // a hash table over visited_, used once it is long: round and index
  uint32_t round_ = 0;
  size_t set_begin_ = 0;  // where the set that is being made begins
};

}  // namespace colibri::sampling::grammar
