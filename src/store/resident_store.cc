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

  Status load(const formats::TensorCatalog& catalog, std::span<const ExpertSource> experts, platform::Arena& arena,
              std::span<std::byte> staging, const LoadProgress& progress) {
    for (size_t i = 0; i < experts.size(); ++i) {
      COLIBRI_ASSIGN(weights_[i].gate, load_one(catalog, experts[i].gate, arena, staging, progress));
      COLIBRI_ASSIGN(weights_[i].up, load_one(catalog, experts[i].up, arena, staging, progress));
      COLIBRI_ASSIGN(weights_[i].down, load_one(catalog, experts[i].down, arena, staging, progress));
    }
    return {};
  }

  Result<ExpertLeases> acquire(int moe_layer, std::span<const int32_t> ids) override {
    count(moe_layer, ids);
    const auto n = static_cast<size_t>(n_experts());
    return ExpertLeases(std::span(pointers_).subspan(static_cast<size_t>(moe_layer) * n, n));
  }

 private:
  static Result<PackedMatrix> load_one(const formats::TensorCatalog& catalog, const MatrixSource& source,
                                       platform::Arena& arena, std::span<std::byte> staging,
                                       const LoadProgress& progress) {
    std::byte* data = arena.take(source.packed_size());
    COLIBRI_TRY(load_matrix(catalog, source, staging, data));
    if (progress && !progress(source.file_size())) return Error{ErrorCode::kCancelled, "loading was interrupted"};
    return PackedMatrix{source.encoding, source.n, source.k, data};
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

Result<std::unique_ptr<ExpertStore>> open_resident_store(const formats::TensorCatalog& catalog,
                                                         std::span<const ExpertSource> experts, int n_layers,
                                                         int n_experts, platform::Arena& arena,
                                                         std::span<std::byte> staging, const LoadProgress& progress) {
  auto store = std::make_unique<ResidentStore>(n_layers, n_experts);
  COLIBRI_TRY(store->load(catalog, experts, arena, staging, progress));
  return std::unique_ptr<ExpertStore>(std::move(store));
}

}  // namespace colibri::store
