// The store of a model that fits: everything is read once.
#include <algorithm>
#include <utility>

#include "store/expert_store.h"
#include "store/slot_plan.h"

namespace colibri::store {
namespace {

class ResidentStore final : public ExpertStore {
 public:
  ResidentStore(int n_layers, int n_experts) : ExpertStore(n_layers, n_experts) {
    weights_.resize(static_cast<size_t>(n_layers) * static_cast<size_t>(n_experts));
    for (const ExpertWeights& w : weights_) pointers_.push_back(&w);
    for (size_t i = 0; i < weights_.size(); ++i) set_place(static_cast<int>(i), Place::kResident);
    wanted_.resize(static_cast<size_t>(n_experts));
    ready_.reserve(static_cast<size_t>(n_experts));
  }

  void place_all(std::span<const ExpertSource> experts, platform::Arena& arena, std::vector<LoadJob>& jobs) {
    jobs.reserve(jobs.size() + 3 * experts.size());
    for (size_t i = 0; i < experts.size(); ++i) {
      weights_[i].gate = place_one(experts[i].gate, arena, jobs);
      weights_[i].up = place_one(experts[i].up, arena, jobs);
      weights_[i].down = place_one(experts[i].down, arena, jobs);
      weights_[i].gate_bias = experts[i].gate_bias;
      weights_[i].up_bias = experts[i].up_bias;
      weights_[i].down_bias = experts[i].down_bias;
    }
  }

  ExpertLeases acquire(int moe_layer, std::span<const int32_t> ids, ArrivalOrder) override {
    count(moe_layer, ids);
    layer_ = moe_layer;
    for (const int32_t id : ids) wanted_[static_cast<size_t>(id)] = 1;
    return ExpertLeases(*this);
  }
  StoreStatistics statistics() const override {
    StoreStatistics s;
    s.slots = s.resident = static_cast<int64_t>(weights_.size());
    return s;
  }

 private:
  bool all_there() const override { return true; }
  std::span<const int32_t> missing() const override { return {}; }
  std::span<const ExpertWeights* const> by_expert() const override {
    const auto n = static_cast<size_t>(n_experts());
    return std::span(pointers_).subspan(static_cast<size_t>(layer_) * n, n);
  }
  // All at once, then none.
  Result<std::span<const int32_t>> next() override {
    ready_.clear();
    for (int32_t e = 0; e < n_experts(); ++e)
      if (std::exchange(wanted_[static_cast<size_t>(e)], char{0}) != 0) ready_.push_back(e);
    return std::span<const int32_t>(ready_);
  }
  void end_lease() override { std::fill(wanted_.begin(), wanted_.end(), char{0}); }

  static PackedMatrix place_one(const MatrixSource& source, platform::Arena& arena, std::vector<LoadJob>& jobs) {
    if (source.n == 0) return {};
    std::byte* data = arena.take(source.packed_size());
    jobs.push_back({source, data});
    return {source.encoding, source.n, source.k, data};
  }

  std::vector<ExpertWeights> weights_;          // [n_layers, n_experts]
  std::vector<const ExpertWeights*> pointers_;  // the same, as leases hand them out
  int layer_ = 0;                               // of the lease
  std::vector<char> wanted_;                    // [n_experts], of the lease, not handed out
  std::vector<int32_t> ready_;
};

}  // namespace

int64_t resident_store_bytes(std::span<const ExpertSource> experts) {
  int64_t bytes = 0;
  for (const ExpertSource& source : experts) bytes += slot_bytes(source);
  return bytes;
}

std::unique_ptr<ExpertStore> make_resident_store(std::span<const ExpertSource> experts, int n_layers, int n_experts,
                                                 platform::Arena& arena, std::vector<LoadJob>& jobs) {
  auto store = std::make_unique<ResidentStore>(n_layers, n_experts);
  store->place_all(experts, arena, jobs);
  return store;
}

}  // namespace colibri::store
