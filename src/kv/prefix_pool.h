// PrefixPool: the blocks and snapshots of the prefix cache in memory, who follows whom, and who makes room.
//
// A block stands for its positions after all of its parent's, so blocks form trees, one below each scope. Bytes of
// blocks and snapshots come from one arena, and nothing is allocated after create(). Invariant: in the order of use a
// parent stands before its children, so what was used longest ago is the end of a chain; a block with children, or one
// that is pinned, is never taken. Thread-safety: the engine thread owns it; other threads may read names, tokens, ends
// and bytes of a block that is pinned for them, and of its parents, which stay with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/prefix_hash.h"
#include "platform/memory.h"

namespace colibri::kv {

struct PrefixPoolSize {
  int64_t block_positions = 0;
  int64_t block_bytes = 0;      ///< a multiple of 64
  int64_t snapshot_floats = 0;  ///< a multiple of 16
  int n_blocks = 0;
  int n_snapshots = 0;
};

class PrefixPool {
 public:
  static constexpr int kNone = -1;

  enum class State : uint8_t {
    kFree,
    kLoading,  ///< its bytes come from the disk; pinned
    kReady,
    kDead,  ///< could not be loaded; goes as soon as those behind it are gone
  };

  struct Block {
    PrefixHash hash;
    int parent = kNone;
    int64_t end = 0;  ///< positions up to its last, itself included
    bool long_prompt = false;
    uint8_t key_bytes = 0;
    std::array<char, PrefixScope::kMaxKeyBytes> key{};

    State state = State::kFree;
    bool wanted = false;  ///< waits to be written
    int n_children = 0;
    int n_pins = 0;
    int snapshot = kNone;
    int next_in_bucket = kNone, newer = kNone, older = kNone;

    PrefixScope scope() const { return {{key.data(), key_bytes}, long_prompt}; }
  };

  static int64_t bytes(const PrefixPoolSize& size);
  /// kDoesNotFit when the memory is refused.
  static Result<PrefixPool> create(const PrefixPoolSize& size);

  const Block& block(int b) const { return blocks_[static_cast<size_t>(b)]; }
  Block& block(int b) { return blocks_[static_cast<size_t>(b)]; }
  std::span<const TokenId> tokens(int b) const;
  std::span<std::byte> data(int b) const;
  std::span<float> snapshot(int s) const;
  /// All tokens up to the end of the block. REQUIRES: `out` holds block(b).end.
  void prefix_tokens(int b, std::span<TokenId> out) const;

  /// The block of this name with these tokens behind `parent`, in whatever state; or kNone.
  int find(const PrefixHash& hash, int parent, const PrefixScope& scope, std::span<const TokenId> tokens) const;
  /// A new block; its bytes are the caller's to fill. Another may go for it: kNone when nobody can.
  int add(const PrefixHash& hash, int parent, const PrefixScope& scope, std::span<const TokenId> tokens, State state);
  /// The block and all before it were used now.
  void touch(int b);
  /// REQUIRES: no children, no pins.
  void remove(int b);
  /// A failed load: blocks that wait for this one cannot be used either.
  void give_up(int b);

  /// Room for a snapshot of the block: its own, a free one, or the one unused for longest. kNone when all are pinned.
  int take_snapshot(int b);
  void drop_snapshot(int b);
  /// The block's snapshot was used now.
  void touch_snapshot(int b);

  int newest() const { return newest_; }  ///< with Block::older: all blocks in the order of use, parents first
  int n_used() const { return size_.n_blocks - static_cast<int>(free_.size()); }
  int n_snapshots_used() const;
  int64_t evicted() const { return evicted_; }
  int64_t dropped() const { return dropped_; }  ///< evicted while they waited to be written

 private:
  struct Snapshot {
    int owner = kNone;
    int64_t used = 0;
  };

  int& bucket(const PrefixHash& hash) { return buckets_[hash.low & (buckets_.size() - 1)]; }
  int room();
  void link_behind(int b, int newer);
  void unlink(int b);
  void unhash(int b);
  bool leaf(const Block& block) const { return block.n_children == 0 && block.n_pins == 0; }

  PrefixPoolSize size_;
  platform::Arena arena_;
  std::vector<Block> blocks_;
  std::vector<TokenId> tokens_;  // [n_blocks, block_positions]
  std::vector<int> buckets_;     // a power of two
  std::vector<int> free_;
  std::vector<Snapshot> snapshots_;
  int newest_ = kNone, oldest_ = kNone;
  int64_t clock_ = 0, evicted_ = 0, dropped_ = 0;
};

}  // namespace colibri::kv
