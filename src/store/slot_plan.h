// SlotPlan: how the memory for experts is cut into slots, decided before anything is loaded.
//
// A slot holds one expert in its packed form. Layers whose experts take the same memory share a class of slots; the
// classes get memory in proportion to what all their experts would take. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "store/matrix_source.h"

namespace colibri::store {

struct SlotPlan {
  struct Class {
    int64_t slot_bytes = 0;
    int64_t slots = 0;
    int64_t experts = 0;  ///< of all layers of the class
  };
  std::vector<Class> classes;
  std::vector<int> class_of_layer;  ///< [MoE layers]

  int64_t slots() const;
  int64_t bytes() const;
  /// Every expert has a slot.
  bool holds_all() const;
};

/// Memory of one expert in a slot, each matrix aligned.
int64_t slot_bytes(const ExpertSource& expert);

/// As many slots as `bytes` hold, but at least `least_slots` per class (as far as it has experts), which may take more
/// than `bytes`. `experts` [n_layers, n_experts].
SlotPlan plan_slots(std::span<const ExpertSource> experts, int n_layers, int n_experts, int64_t bytes, int least_slots);

}  // namespace colibri::store
