// CachePolicy: which expert makes room for another. Pure bookkeeping: no I/O, no threads, no clock but tokens.
//
// Every expert has a key, which changes only when it is used; the least key goes first. Policies differ in the key:
//   lru    the time of the last use
//   lfu    the number of uses; above lfu_threshold it stays as long as anything else can go
//   auto   uses that fade: log2 of the sum of 2^(-age / kHalfLife) over all uses. Fading changes all alike, so keys stay
//          as they are between uses. In addition a layer keeps its floor (a part of its fair share of the slots), and
//          while a step sweeps over (nearly) all experts, layers that the step has passed give up theirs first
// Evictable experts of a layer are in a heap; a victim costs a look at the top of each layer's heap.
//
// Thread-safety: one thread. Memory: all of it in the constructor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace colibri::store {

enum class PolicyKind { kAuto, kLru, kLfu };

struct CacheShape {
  int n_layers = 0;
  int n_experts = 0;
  /// [n_layers]: layers whose experts fit the same slots have the same class; a victim is looked for within a class.
  std::vector<int> slot_class;
  /// [classes]: how many experts of the class can be resident.
  std::vector<int64_t> slots;
};

/// Where the step is that needs room.
struct StepPosition {
  int layer = 0;
  bool sweeping = false;  ///< the step wants (nearly) all experts of every layer
};

class CachePolicy {
 public:
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
};

}  // namespace colibri::store
