#include "store/slot_plan.h"

#include <algorithm>

#include "platform/memory.h"

namespace colibri::store {
namespace {

// The class whose slots take `bytes`, made when there is none yet.
int class_with(std::vector<SlotPlan::Class>& classes, int64_t bytes) {
  for (size_t c = 0; c < classes.size(); ++c)
    if (classes[c].slot_bytes == bytes) return static_cast<int>(c);
  classes.push_back({bytes, 0, 0});
  return static_cast<int>(classes.size()) - 1;
}

}  // namespace

int64_t SlotPlan::slots() const {
  int64_t n = 0;
  for (const Class& c : classes) n += c.slots;
  return n;
}

int64_t SlotPlan::bytes() const {
  int64_t n = 0;
  for (const Class& c : classes) n += c.slots * c.slot_bytes;
  return n;
}

bool SlotPlan::holds_all() const {
  return std::all_of(classes.begin(), classes.end(), [](const Class& c) { return c.slots == c.experts; });
}

int64_t slot_bytes(const ExpertSource& expert) {
  return platform::aligned_bytes(expert.gate.packed_size()) + platform::aligned_bytes(expert.up.packed_size()) +
         platform::aligned_bytes(expert.down.packed_size());
}

SlotPlan plan_slots(std::span<const ExpertSource> experts, int n_layers, int n_experts, int64_t bytes,
                    int least_slots) {
  SlotPlan plan;
  int64_t all_bytes = 0;
  for (int layer = 0; layer < n_layers; ++layer) {
    int64_t largest = 0;
    for (int e = 0; e < n_experts; ++e)
      largest = std::max(
          largest,
          slot_bytes(experts[static_cast<size_t>(layer) * static_cast<size_t>(n_experts) + static_cast<size_t>(e)]));
    const int c = class_with(plan.classes, largest);
    plan.class_of_layer.push_back(c);
    plan.classes[static_cast<size_t>(c)].experts += n_experts;
    all_bytes += n_experts * largest;
  }
  for (SlotPlan::Class& c : plan.classes) {
    const double share = all_bytes > 0 ? static_cast<double>(bytes) / static_cast<double>(all_bytes) : 0;
    const auto fair = static_cast<int64_t>(share * static_cast<double>(c.experts));
    c.slots = std::clamp<int64_t>(fair, std::min<int64_t>(least_slots, c.experts), c.experts);
  }
  for (SlotPlan::Class& c : plan.classes)  // what rounding down left
    while (c.slots < c.experts && plan.bytes() + c.slot_bytes <= bytes) ++c.slots;
  return plan;
}

}  // namespace colibri::store
