// CachePolicy: which expert makes room for another. Pure bookkeeping: no I/O, no threads, no clock but tokens.
//
// Every expert has a key, which changes only when it is used; the least key goes first. Policies differ in the key:
//   lru    the time of the last use
//   lfu    the number of uses, then the time of the last one
//   auto   uses that fade: log2 of the sum of 2^(-age / half-life) over all uses. Fading changes all alike, so keys
//   stay
//          as they are between uses. Three things are added where layers are compared. An expert whose layer comes
//          later counts less, up to kPassedBits for the layer just passed: recency alone throws out what comes next. A
//          layer keeps its floor, a part of its fair share of the slots. While a step sweeps over (nearly) all
//          experts, layers that it has passed give up theirs first
// Evictable experts of a layer are in a heap; a victim costs a look at the top of each layer's heap.
//
// Thread-safety: one thread. Memory: all of it in the constructor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace colibri::store {

// The numbers of auto are measured on traces: docs/traces.md. It depends little on them.
/// After so many tokens a use counts half: long enough to see which experts are hot, short enough to follow a topic.
inline constexpr int64_t kHalfLifeTokens = 96;
/// An expert that the step has just passed is worth this many bits less than one of the layer that comes next.
inline constexpr double kPassedBits = 1;
/// Other layers leave a layer at least this part of an equal share of the slots.
inline constexpr double kFloorOfFairShare = 0.5;

enum class PolicyKind { kAuto, kLru, kLfu };

struct CacheShape {
  int n_layers = 0;
  int n_experts = 0;
  /// [n_layers]: layers whose experts fit the same slots have the same class; a victim is looked for within a class.
  std::vector<int> slot_class;
  /// [classes]: how many experts of the class can be resident.
  std::vector<int64_t> slots;
};

/// Whether a step with so many choices (rows x top_k) wants (nearly) all experts of a layer: 86 % and more of them,
/// were all as likely.
inline bool sweeps(int64_t choices, int n_experts) { return choices >= 2 * int64_t{n_experts}; }

/// Where the step is that needs room.
struct StepPosition {
  int layer = 0;
  bool sweeping = false;  ///< the step wants (nearly) all experts of every layer
};

class CachePolicy {
 public:
  /// `lfu_threshold`: with lfu, an expert that was used more often never makes room for a speculative read.
  CachePolicy(PolicyKind kind, int64_t lfu_threshold, CacheShape shape);

  /// A step over `tokens` rows begins: so much time passes.
  void begin_step(int64_t tokens);
  /// `rows` rows of the present step chose the expert, resident or not.
  void use(int layer, int expert, int64_t rows);

  /// The expert is resident and nobody holds it: it may go.
  void insert(int layer, int expert);
  /// It is held, or gone. REQUIRES: it was inserted.
  void erase(int layer, int expert);
  /// The expert (layer * n_experts + expert) that should go for one of `layer`; it stays inserted. nullopt: none may.
  std::optional<int> victim(int layer, const StepPosition& position) const;

  /// A speculative read of `candidate` may take the place of `victim`: it is worth more.
  bool worth_more(int candidate, int victim) const;

  /// Fading number of uses up to now, whatever the kind; for the heat file, and to read the hottest first.
  float heat(int layer, int expert) const;
  /// Begins with heat from an earlier run. REQUIRES: nothing was used yet.
  void warm(int layer, int expert, float heat);

 private:
  struct Key {
    double value = 0;
    double tie = 0;
    bool operator<(const Key& other) const { return value != other.value ? value < other.value : tie < other.tie; }
  };
  /// What is preferred over the key: see victim().
  enum class Turn { kFirst, kNormal, kLast };

  size_t index(int layer, int expert) const { return static_cast<size_t>(layer) * n_experts_ + expert; }
  int n_layers() const { return static_cast<int>(slot_class_.size()); }
  Turn turn(int candidate_layer, int layer, const StepPosition& position) const;
  Key key_seen_from(const StepPosition& position, int layer, int32_t expert) const;

  int32_t* heap_of(int layer) { return heaps_.data() + index(layer, 0); }
  bool goes_before(int layer, int32_t a, int32_t b) const;
  void place(int layer, int32_t position, int32_t expert);
  void sift_up(int layer, int32_t position);
  void sift_down(int layer, int32_t position);

  const PolicyKind kind_;
  const int64_t lfu_threshold_;
  const size_t n_experts_;
  std::vector<int> slot_class_;              // [layers]
  std::vector<std::vector<int>> layers_of_;  // [classes]
  std::vector<int32_t> floors_;              // [layers], evictable experts that other layers leave alone

  int64_t now_ = 0;         // tokens
  double step_weight_ = 1;  // what one row of the present step counts
  double stamp_ = 0;        // uses so far

  std::vector<Key> keys_;          // [layers, experts]
  std::vector<double> log_heat_;   // [layers, experts], log2 of the fading uses, as if time had stood still at 0
  std::vector<int32_t> heaps_;     // [layers, experts], evictable experts of the layer, the least key first
  std::vector<int32_t> sizes_;     // [layers], of the heaps
  std::vector<int32_t> position_;  // [layers, experts], in the heap of its layer; -1: not evictable
};

}  // namespace colibri::store
