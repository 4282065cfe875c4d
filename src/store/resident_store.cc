// The store of a model that fits: everything is read once.
#include "store/expert_store.h"

namespace colibri::store {
namespace {

int64_t aligned_expert_bytes(const ExpertSource& source) {
  return platform::aligned_bytes(source.gate.packed_size()) + platform::aligned_bytes(source.up.packed_size()) +
         platform::aligned_bytes(source.down.packed_size());
}

class ResidentStore final : public ExpertStore {
 public:
  ResidentStore(int n_layers, int n_experts) : ExpertStore(n_layers, n_experts) {
    weights_.resize(static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts));
    for (const ExpertWeights& w : weights_) pointers_.push_back(&w);
  }

  void place(std::span<const ExpertSource> experts, platform::Arena& arena, std::vector<LoadJob>& jobs) {
    jobs.reserve(jobs.size() + 3 * experts.size());
    for (size_t i = 0; i < experts.size(); ++i) {
      weights_[i].gate = place_one(experts[i].gate, arena, jobs);
      weights_[i].up = place_one(experts[i].up, arena, jobs);
      weights_[i].down = place_one(experts[i].down, arena, jobs);
    }
  }

  Result<ExpertLeases> acquire(int moe_layer, std::span<const int32_t> ids) override {
    count(moe_layer, ids);
    const auto n = static_cast<size_t>(n_experts());
    return ExpertLeases(std::span(pointers_).subspan(static_cast<size_t>(moe_layer) * n, n));
  }

 private:
  static PackedMatrix place_one(const MatrixSource& source, platform::Arena& arena, std::vector<LoadJob>& jobs) {
    std::byte* data = arena.take(source.packed_size());
    jobs.push_back({source, data});
    return {source.encoding, source.n, source.k, data};
  }

  std::vector<ExpertWeights> weights_;          // [n_layers, n_experts]
  std::vector<const ExpertWeights*> pointers_;  // the same, as leases hand them out
};

}  // namespace

int64_t resident_store_bytes(std::span<const ExpertSource> experts) {
  int64_t bytes = 0;
  for (const ExpertSource& source : experts) bytes += aligned_expert_bytes(source);
  return bytes;
}

std::unique_ptr<ExpertStore> make_resident_store(std::span<const ExpertSource> experts, int n_layers, int n_experts,
                                                 platform::Arena& arena, std::vector<LoadJob>& jobs) {
  auto store = std::make_unique<ResidentStore>(n_layers, n_experts);
  store->place(experts, arena, jobs);
  return store;
}

}  // namespace colibri::store
