// PrefixCache: prefixes that were computed once, for all later sequences that begin with the same tokens.
//
// After each pass the engine hands over what a sequence has computed (insert, and snapshot where recurrent layers ended
// at the border of a block); when another begins with the same tokens, in the same scope, its slot gets those bytes
// (restore) and only the rest is computed, with the same results: what is restored is what would be computed, bit for
// bit. Recurrent state cannot be cut back, so models that have it resume only where a snapshot was made. Blocks and
// snapshots unused for longest make room. With a folder (open_folder), prefixes that were used again are kept there
// too: prefetch() brings them back without making anybody wait. Thread-safety: the engine thread owns it. No allocation
// after create() and open_folder().
#pragma once

#include <memory>
#include <span>

#include "kv/prefix_disk.h"
#include "kv/prefix_layout.h"
#include "kv/prefix_pool.h"
#include "kv/state_cache.h"

namespace colibri::kv {

struct PrefixGeometry {
  KvGeometry kv;         ///< of the cache that prefixes come from and go to
  StateGeometry states;  ///< likewise
  int n_blocks = 0;
  int n_snapshots = 0;   ///< used only by models with recurrent state
  bool on_disk = false;  ///< open_folder() will be called
};

struct PrefixStatistics {
  int64_t blocks = 0, blocks_used = 0, snapshots = 0, snapshots_used = 0;
  int64_t bytes = 0;       ///< of all blocks and snapshots, used or not
  int64_t lookups = 0;     ///< calls of restore()
  int64_t hits = 0;        ///< those that restored something
  int64_t hit_tokens = 0;  ///< tokens that did not have to be computed
  int64_t inserted = 0, evicted = 0;
  int64_t refused = 0;  ///< blocks that could not be kept: all others were in use, or their rings had gone on
  int64_t dropped = 0;  ///< blocks that made room before they were written to the disk
  PrefixDiskStatistics disk;
};

class PrefixCache {
 public:
  /// Positions of a block; kUnsupported for models whose prefixes cannot be kept.
  static Result<int64_t> block_positions(const KvGeometry& kv);
  /// Bytes of one block with all that belongs to it, and of one snapshot: what a budget is divided by.
  static Result<int64_t> block_bytes(const KvGeometry& kv);
  static int64_t snapshot_bytes(const StateGeometry& states);
  /// Bytes that a cache of this geometry takes.
  static Result<int64_t> bytes(const PrefixGeometry& geometry);

  /// `identity`: of the model and of every setting that changes what it computes. kDoesNotFit when the memory is
  /// refused.
  static Result<std::unique_ptr<PrefixCache>> create(const PrefixGeometry& geometry, uint64_t identity);
  /// Keeps prefixes in a folder as well. Errors like PrefixDisk::open(). REQUIRES: geometry.on_disk, not called before.
  Status open_folder(PrefixDiskOptions options);

  int64_t block_positions() const { return layout_.positions(); }
  bool recurrent() const { return recurrent_; }

  /// What is known of a prompt, in whole blocks, and always less than all of it: its last token must be computed.
  struct Found {
    int64_t resumable = 0;  ///< restore() would give so many positions now
    /// So far the blocks are there. Where it is more than `resumable`, prompts have parted here: a pass that ends here,
    /// and a snapshot, let the next one resume.
    int64_t known = 0;
  };
  Found find(const PrefixScope& scope, std::span<const TokenId> prompt) const;

  /// Copies the longest prefix that can be resumed into the slot, and into its states; the positions it has then, 0:
  /// none (the states are left as they are). The rest of the prompt is computed from there.
  int64_t restore(const PrefixScope& scope, std::span<const TokenId> prompt, int slot, const KvCache& cache,
                  StateCache& states);

  /// Keeps the whole blocks of what the slot has computed: `tokens`, from the first to the last one that was written.
  /// To be called after each pass that completes a block, before the next pass overwrites the rings.
  void insert(const PrefixScope& scope, std::span<const TokenId> tokens, int slot, const KvCache& cache);
  /// Keeps the state behind `tokens`, which end at the border of a block that was inserted. Does nothing for models
  /// without recurrent state.
  void snapshot(const PrefixScope& scope, std::span<const TokenId> tokens, int slot, const StateCache& states);

  /// Asks the disk for what it has of the prompt beyond what is in memory. True: some of it is on its way, and the
  /// sequence had better wait; `wake` of the options is called when to ask again. False: restore() gives all there is.
  bool prefetch(const PrefixScope& scope, std::span<const TokenId> prompt);
  /// Takes over what the disk has finished, and gives it more to write. Cheap; to be called every step. The others call
  /// it as well.
  void tend();
  /// Asks for all blocks that the disk does not have to be written.
  void save();
  /// Blocks that wait to be written or are being written; 0 also when the disk takes no more. Does what tend() does.
  int64_t unsaved();
  /// Waits until the disk has finished something, at most so long: for a shutdown, between calls of unsaved().
  void wait_for_disk(int timeout_ms);

  PrefixStatistics statistics() const;

  /// For tests: every block gets the same name, so that only its tokens tell it from others.
  void collide_for_test() { collide_ = true; }

 private:
  struct Walk;

  PrefixCache(const PrefixGeometry& geometry, uint64_t identity, PrefixLayout layout, PrefixPool pool);
  static std::span<const TokenId> but_the_last(std::span<const TokenId> prompt);
  PrefixHash hash(const PrefixHash& before, std::span<const TokenId> tokens) const;
  Walk begin(const PrefixScope& scope, std::span<const TokenId> tokens) const;
  std::span<const TokenId> next_tokens(const Walk& walk) const;
  void advance(Walk& walk, const PrefixHash& name, int block) const;
  bool step(Walk& walk) const;
  bool resumable(int block) const;
  bool keep(Walk& walk, int slot, const KvCache& cache);
  bool load(Walk& walk, bool& waits);
  int64_t on_disk_until(Walk walk) const;
  void finish(const PrefixDisk::Done& done);
  void used_again(int block);
  void want(int block);
  void write_wanted();

  const PrefixGeometry geometry_;
  const uint64_t identity_, fingerprint_;
  const PrefixLayout layout_;
  const bool recurrent_;
  bool collide_ = false;
  int64_t n_wanted_ = 0;   ///< blocks that wait to be written, and some that made room since they were counted
  int64_t n_writing_ = 0;  ///< blocks that are being written
  PrefixStatistics statistics_;
  PrefixPool pool_;
  std::unique_ptr<PrefixDisk> disk_;  ///< ends before the pool
};

}  // namespace colibri::kv
