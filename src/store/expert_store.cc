#include "store/expert_store.h"

namespace colibri::store {

ExpertLeases::~ExpertLeases() {
  if (store_ != nullptr) store_->end_lease();
}
bool ExpertLeases::all_there() const { return store_->all_there(); }
Result<std::span<const int32_t>> ExpertLeases::next() { return store_->next(); }
std::span<const ExpertWeights* const> ExpertLeases::by_expert() const { return store_->by_expert(); }
std::span<const int32_t> ExpertLeases::missing() const { return store_->missing(); }

ExpertStore::ExpertStore(int n_layers, int n_experts)
    : n_layers_(n_layers),
      n_experts_(n_experts),
      activations_(static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts)),
      places_(activations_.size()) {}

void ExpertStore::count(int moe_layer, std::span<const int32_t> ids) {
  for (const int32_t id : ids)
    activations_[static_cast<size_t>(moe_layer * n_experts_ + id)].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace colibri::store
