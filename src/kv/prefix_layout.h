// PrefixLayout: what a block of a prefix holds, and how it moves between a slot of the KV cache and plain memory.
//
// A block is a run of positions, whole tiles and whole runs of compressed entries: 64 positions, or the least common
// multiple with the rates of the layers. It holds what every layer keeps of them, bit for bit, layer after layer:
// tiles as they lie in the cache (tensor/kv_view.h), and of a layer with a rate the entries of these positions.
// Thread-safety: const functions of a plain value; the copies are the engine thread's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kv/kv_cache.h"

namespace colibri::kv {

class PrefixLayout {
 public:
  /// kUnsupported when the rates have no common multiple that is a sensible block.
  static Result<PrefixLayout> of(const KvGeometry& geometry);

  int64_t positions() const { return positions_; }  ///< of a block
  int64_t bytes() const { return bytes_; }          ///< of a block, a multiple of 64
  /// Everything that decides which bytes stand where in a block.
  uint64_t fingerprint() const { return fingerprint_; }

  /// A slot that has written `written` positions still holds all of the block that begins at `first`.
  bool held(const KvCache& cache, int slot, int64_t first, int64_t written) const;
  /// REQUIRES: held().
  void copy_out(const KvCache& cache, int slot, int64_t first, std::byte* block) const;
  /// What a sequence that goes on at `resume` can see of the block goes into the slot. Blocks come in ascending order.
  void copy_in(const KvCache& cache, int slot, int64_t first, int64_t resume, const std::byte* block) const;

 private:
  struct Part {
    int layer = 0;
    KvLayer shape;
    int64_t offset = 0;  ///< in the block
    int64_t bytes = 0;
  };

  int64_t positions_ = KvView::kTile;
  int64_t bytes_ = 0;
  uint64_t fingerprint_ = 0;
  std::vector<Part> parts_;  ///< of the layers that keep something
};

}  // namespace colibri::kv
