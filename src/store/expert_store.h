// ExpertStore: where experts live. The model asks for the experts of one layer and gets leases; it never learns whether
// they were in memory already.
//
// Invariant: while an ExpertLeases object lives, the weights it names are complete and stay where they are.
// Thread-safety: acquire() is called by the engine thread; activations() by any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/memory.h"
#include "store/loader.h"
#include "store/matrix_source.h"
#include "tensor/packed.h"

namespace colibri::store {

/// Pinned experts of one layer, by expert number; null where an expert was not asked for. Move-only: the pin ends with
/// it.
class ExpertLeases {
 public:
  explicit ExpertLeases(std::span<const ExpertWeights* const> by_expert) : by_expert_(by_expert) {}
  ExpertLeases(ExpertLeases&&) = default;
  ExpertLeases& operator=(ExpertLeases&&) = default;
  ExpertLeases(const ExpertLeases&) = delete;
  ExpertLeases& operator=(const ExpertLeases&) = delete;

  std::span<const ExpertWeights* const> by_expert() const { return by_expert_; }

 private:
  std::span<const ExpertWeights* const> by_expert_;
};

class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  /// Pins the experts that `ids` names (any order, repeats allowed) of the given MoE layer (counted among MoE layers)
  /// and counts one activation per id. Allocates nothing.
  virtual Result<ExpertLeases> acquire(int moe_layer, std::span<const int32_t> ids) = 0;

  int n_layers() const { return n_layers_; }
  int n_experts() const { return n_experts_; }
  /// How often an expert was chosen since the store was opened.
  uint64_t activations(int moe_layer, int expert) const {
    return activations_[static_cast<size_t>(moe_layer * n_experts_ + expert)].load(std::memory_order_relaxed);
  }

 protected:
  ExpertStore(int n_layers, int n_experts);
  void count(int moe_layer, std::span<const int32_t> ids);

 private:
  int n_layers_;
  int n_experts_;
  std::vector<std::atomic<uint64_t>> activations_;  // [n_layers, n_experts]
};

/// Bytes of arena memory that the resident store takes.
int64_t resident_store_bytes(std::span<const ExpertSource> experts);

/// The store whose experts all stay in memory. `experts` [n_layers, n_experts]; memory comes from `arena`. What has to
/// be read into it is added to `jobs`: the store must not be asked for experts before load_matrices() has done them.
std::unique_ptr<ExpertStore> make_resident_store(std::span<const ExpertSource> experts, int n_layers, int n_experts,
                                                 platform::Arena& arena, std::vector<LoadJob>& jobs);

}  // namespace colibri::store
