// KvCache: the attention state of all sequences, in one arena that is sized before loading.
//
// A slot holds one sequence: keys and values of every layer for up to `capacity` positions (layout: tensor/kv_view.h),
// all of one type. Thread-safety: the engine thread owns it. Invariant: a slot belongs to at most one sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "platform/memory.h"
#include "tensor/kv_view.h"

namespace colibri::kv {

struct KvGeometry {
  int n_layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t capacity = 0;  ///< positions per slot
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
  /// A free slot, or -1.
  int take_slot();
  void release_slot(int slot);
  KvView view(int slot, int layer) const;

 private:
  KvGeometry geometry_;
  platform::Arena arena_;
  std::vector<int> free_slots_;
};

}  // namespace colibri::kv
