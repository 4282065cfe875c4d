// ExpertStore: where experts live. The model asks for the experts of one layer and gets leases; it never learns where
// they were.
//
// Two stores: everything resident (a model that fits), and streaming, which keeps some experts in slots and reads the
// others when they are wanted. A lease hands experts out as they arrive, those in memory first:
//
//   COLIBRI_ASSIGN(ExpertLeases leases, store.acquire(layer, ids, rows, ArrivalOrder::kAny));
//   for (;;) { COLIBRI_ASSIGN(const auto ready, leases.next()); if (ready.empty()) break; ... }
//
// Invariant: from the moment in which next() names an expert until the next call of next(), or the end of the
// ExpertLeases, its weights are complete and stay where they are.
// Thread-safety: the engine's thread; activations() and statistics() by any thread. Allocates nothing after its
// creation, except for error messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "platform/memory.h"
#include "store/loader.h"
#include "store/matrix_source.h"
#include "tensor/packed.h"

namespace colibri::store {

/// In which order a lease hands experts out.
enum class ArrivalOrder {
  kAny,        ///< as they arrive
  kAscending,  ///< by expert number, a few at a time
};

class ExpertStore;

/// The experts of one layer that one step wants. Move-only: the pins end with it, and at most one exists at a time.
class ExpertLeases {
 public:
  explicit ExpertLeases(ExpertStore& store) : store_(&store) {}
  ExpertLeases(ExpertLeases&& other) noexcept : store_(std::exchange(other.store_, nullptr)) {}
  ExpertLeases& operator=(ExpertLeases&&) = delete;
  ExpertLeases(const ExpertLeases&) = delete;
  ExpertLeases& operator=(const ExpertLeases&) = delete;
  ~ExpertLeases();

  /// Every wanted expert is in memory and stays there while this lives: no need to call next().
  bool all_there() const;
  /// Experts that are there now and were not handed out before, ascending; waits when there are none yet. Empty: all
  /// were handed out. Errors: kIo with expert, file and offset; kCancelled when the watcher says so.
  Result<std::span<const int32_t>> next();
  /// By expert number: shapes and encodings of all wanted ones, data of those that are there.
  std::span<const ExpertWeights* const> by_expert() const;
  /// Wanted experts that were not in memory when they were asked for, ascending.
  std::span<const int32_t> missing() const;

 private:
  ExpertStore* store_;
};

/// Of one MoE layer.
struct LayerStatistics {
  uint64_t hits = 0, misses = 0;
  int64_t resident = 0;  ///< experts
};

/// What a store did since it was opened, and what it holds.
struct StoreStatistics {
  bool streams = false;
  int64_t slots = 0, resident = 0;                                      ///< experts
  uint64_t hits = 0, misses = 0;                                        ///< an expert wanted by a step
  uint64_t demanded = 0, guessed = 0, guesses_used = 0, evictions = 0;  ///< experts read, and dropped
  uint64_t bytes_read = 0, guessed_bytes = 0;
  uint64_t reads = 0, failed_reads = 0, overdue_reads = 0;
  double wait_seconds = 0;  ///< that steps waited for experts
  double read_seconds = 0, pack_seconds = 0, slowest_read_seconds = 0;
  double reading_seconds = 0;           ///< with at least one read under way
  std::vector<LayerStatistics> layers;  ///< empty when all experts are resident
  double probe_bytes_per_second = 0;    ///< what the disk gave when the engine was opened; 0: not measured
};

class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  /// A step over `rows` tokens begins. `stop` is asked while a step waits; it may be null.
  virtual void begin_step(int64_t /*rows*/, bool (* /*stop*/)(const void*), const void* /*context*/) {}
  /// Pins the experts that `ids` names (any order, repeats allowed) of the given MoE layer (counted among MoE layers)
  /// and counts one activation per id. Where nothing streams, experts that are not named are there too.
  virtual ExpertLeases acquire(int moe_layer, std::span<const int32_t> ids, ArrivalOrder order) = 0;
  /// `ids` of a later layer will probably be wanted: they may be read while the disk is idle.
  virtual void expect(int /*moe_layer*/, std::span<const int32_t> /*ids*/) {}
  /// Work between steps: reads what was hot in the last run. True while there is more to do.
  virtual bool tend() { return false; }

  /// Gives up to about `bytes` of memory back to the system for good: a limit was lowered. REQUIRES: no lease. What was
  /// given back.
  virtual int64_t give_back(int64_t /*bytes*/) { return 0; }

  /// The layer and expert whose reading failed last, for finding out whom it concerns.
  std::optional<std::pair<int, int>> last_failure() const { return last_failure_; }
  virtual StoreStatistics statistics() const = 0;
  virtual double wait_seconds() const { return 0; }
  virtual uint64_t bytes_read() const { return 0; }
  /// [n_layers, n_experts]: fading number of activations, for the next run; empty when the store keeps none.
  virtual std::vector<float> heat() const { return {}; }

  int n_layers() const { return n_layers_; }
  int n_experts() const { return n_experts_; }
  /// How often an expert was chosen since the store was opened.
  /// Where an expert is at present; by any thread.
  enum class Place : uint8_t { kAbsent, kResident, kLoading };
  Place place(int moe_layer, int expert) const {
    return places_[static_cast<size_t>(moe_layer * n_experts_ + expert)].load(std::memory_order_relaxed);
  }
  uint64_t activations(int moe_layer, int expert) const {
    return activations_[static_cast<size_t>(moe_layer * n_experts_ + expert)].load(std::memory_order_relaxed);
  }

 protected:
  friend class ExpertLeases;
  ExpertStore(int n_layers, int n_experts);
  void count(int moe_layer, std::span<const int32_t> ids);
  void set_place(int expert, Place place) {
    places_[static_cast<size_t>(expert)].store(place, std::memory_order_relaxed);
  }

  // Of the one lease there is.
  virtual bool all_there() const = 0;
  virtual Result<std::span<const int32_t>> next() = 0;
  virtual std::span<const ExpertWeights* const> by_expert() const = 0;
  virtual std::span<const int32_t> missing() const = 0;
  virtual void end_lease() = 0;

  std::optional<std::pair<int, int>> last_failure_;

 private:
  int n_layers_;
  int n_experts_;
  std::vector<std::atomic<uint64_t>> activations_;  // [n_layers, n_experts], as is the next
  std::vector<std::atomic<Place>> places_;
};

/// Bytes of arena memory that the resident store takes.
int64_t resident_store_bytes(std::span<const ExpertSource> experts);

/// The store whose experts all stay in memory. `experts` [n_layers, n_experts]; memory comes from `arena`. What has to
/// be read into it is added to `jobs`: the store must not be asked for experts before load_matrices() has done them.
std::unique_ptr<ExpertStore> make_resident_store(std::span<const ExpertSource> experts, int n_layers, int n_experts,
                                                 platform::Arena& arena, std::vector<LoadJob>& jobs);

}  // namespace colibri::store
