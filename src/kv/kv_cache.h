// KvCache: the attention state of all sequences, in one arena that is sized before loading.
//
// A slot holds one sequence: keys and values of every layer for up to `capacity` positions (layout: tensor/kv_view.h),
// all of one type. A layer with a window keeps its newest positions only, in a ring. What else is remembered by
// position, such as the keys of a sparse attention's index, is one more layer of the list.
// Thread-safety: the engine thread owns it. Invariant: a slot belongs to at most one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "platform/memory.h"
#include "tensor/kv_view.h"

namespace colibri::kv {

/// What a layer keeps of a position; the fields are those of KvView. Layers without attention keep nothing.
struct KvLayer {
  int kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  bool latent = false;
  int64_t window = 0;  ///< positions that the newest one sees, itself included; 0: all
  int64_t rate = 1;    ///< keeps one entry for so many positions
};

struct KvGeometry {
  std::vector<KvLayer> layers;
  int64_t capacity = 0;   ///< positions per slot
  int64_t pass_rows = 1;  ///< most rows of a sequence in one pass: they are all appended before the first attends
  int n_slots = 0;
  KvType type = KvType::kF32;
};

class KvCache {
 public:
  /// Bytes that a cache of this geometry takes.
  static int64_t bytes(const KvGeometry& geometry);
  /// kDoesNotFit when the memory is refused.
  static Result<KvCache> create(const KvGeometry& geometry);

  int64_t capacity() const { return geometry_.capacity; }
  bool has_free_slot() const { return !free_slots_.empty(); }
  /// A free slot, or -1.
  int take_slot();
  void release_slot(int slot);
  /// A sequence that has written `written` positions can go on at `position`: what it sees there is still in the rings.
  bool holds(int64_t position, int64_t written) const;
  /// Without data where the layer keeps nothing.
  KvView view(int slot, int layer) const;

 private:
  KvGeometry geometry_;
  int64_t slot_bytes_ = 0;
  std::vector<int64_t> layer_offsets_;  ///< within a slot
  platform::Arena arena_;
  std::vector<int> free_slots_;
};

}  // namespace colibri::kv
