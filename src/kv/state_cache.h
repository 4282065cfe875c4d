// StateCache: the recurrent state of all sequences (compute/recurrent.h), in one arena that is sized before loading.
//
// A slot holds one sequence: a block of floats for each layer that has state. Slot numbers are the KvCache's: whoever
// takes one there calls reset() here. Recurrent state cannot be cut back to an earlier position, so a few copies of
// whole slots, the checkpoints, let a sequence be resumed there; when all are in use, the one unused for longest makes
// room. Thread-safety: the engine thread owns it. No allocation after create(). Invariant: a checkpoint (slot,
// position) is the state after the first `position` tokens that the slot holds now.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/memory.h"

namespace colibri::kv {

struct StateGeometry {
  std::vector<int64_t> layer_floats;  ///< per layer; 0: no state
  int n_slots = 0;
  int n_checkpoints = 0;  ///< of all slots together
};

class StateCache {
 public:
  /// Bytes that a cache of this geometry takes.
  static int64_t bytes(const StateGeometry& geometry);
  /// kDoesNotFit when the memory is refused.
  static Result<StateCache> create(const StateGeometry& geometry);

  /// Zeros for a new sequence; the slot's checkpoints are gone.
  void reset(int slot);
  /// The layer's floats, 64-byte aligned; null where it has none.
  float* state(int slot, int layer) const;

  /// Floats of a whole slot, for save() and restore().
  int64_t slot_floats() const { return slot_floats_; }
  /// REQUIRES: out holds slot_floats().
  void save(int slot, std::span<float> out) const;
  /// Continues from what save() wrote. The slot's checkpoints are gone. REQUIRES: in holds slot_floats().
  void restore(int slot, std::span<const float> in);

  /// Keeps a copy of the state, which is the one after `position` tokens. Does nothing without room for any, or at 0.
  void checkpoint(int slot, int64_t position);
  /// The largest position up to `position` that resume() can go back to; 0 (zeros) is always one.
  int64_t resumable(int slot, int64_t position) const;
  /// Goes back to a position that resumable() named; checkpoints beyond it are gone, as other tokens may follow.
  void resume(int slot, int64_t position);

 private:
  struct Checkpoint {
    int slot = -1;  ///< -1: free
    int64_t position = 0;
    int64_t used = 0;  ///< clock_ when it was made or resumed; 0: free
  };

  std::span<float> block(int64_t index) const;  ///< slots, then checkpoints
  std::span<float> slot_state(int slot) const;
  std::span<float> stored(const Checkpoint& c) const;
  Checkpoint* find(int slot, int64_t position);
  Checkpoint& least_recent();
  void forget_beyond(int slot, int64_t position);

  std::vector<int64_t> offsets_;  ///< of each layer's floats within a slot; -1: none
  int64_t slot_floats_ = 0;
  int n_slots_ = 0;
  int64_t clock_ = 0;
  std::vector<Checkpoint> checkpoints_;
  platform::Arena arena_;
};

}  // namespace colibri::kv
