#include "kv/prefix_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace colibri::kv {
namespace {

size_t n_buckets(int n_blocks) { return std::bit_ceil(static_cast<size_t>(2 * std::max(1, n_blocks))); }

int64_t arena_bytes(const PrefixPoolSize& s) {
  return s.n_blocks * s.block_bytes + s.n_snapshots * s.snapshot_floats * int64_t{sizeof(float)};
}

}  // namespace

int64_t PrefixPool::bytes(const PrefixPoolSize& s) {
  const int64_t per_block =
      static_cast<int64_t>(sizeof(Block) + sizeof(int)) + s.block_positions * int64_t{sizeof(TokenId)};
  return arena_bytes(s) + s.n_blocks * per_block + s.n_snapshots * static_cast<int64_t>(sizeof(Snapshot)) +
         static_cast<int64_t>(n_buckets(s.n_blocks) * sizeof(int));
}

Result<PrefixPool> PrefixPool::create(const PrefixPoolSize& size) {
  COLIBRI_CHECK(size.n_blocks >= 0 && size.n_snapshots >= 0 && size.block_bytes % 64 == 0);
  PrefixPool pool;
  pool.size_ = size;
  COLIBRI_ASSIGN(pool.arena_, platform::Arena::allocate(arena_bytes(size)));
  const auto n = static_cast<size_t>(size.n_blocks);
  pool.blocks_.resize(n);
  pool.tokens_.resize(n * static_cast<size_t>(size.block_positions));
  pool.buckets_.assign(n_buckets(size.n_blocks), kNone);
  pool.snapshots_.resize(static_cast<size_t>(size.n_snapshots));
  for (int b = size.n_blocks - 1; b >= 0; --b) pool.free_.push_back(b);
  return pool;
}

std::span<const TokenId> PrefixPool::tokens(int b) const {
  const auto n = static_cast<size_t>(size_.block_positions);
  return std::span(tokens_).subspan(static_cast<size_t>(b) * n, n);
}

std::span<std::byte> PrefixPool::data(int b) const {
  return {arena_.data() + b * size_.block_bytes, static_cast<size_t>(size_.block_bytes)};
}

std::span<float> PrefixPool::snapshot(int s) const {
  auto* first = reinterpret_cast<float*>(arena_.data() + size_.n_blocks * size_.block_bytes);
  return {first + s * size_.snapshot_floats, static_cast<size_t>(size_.snapshot_floats)};
}

void PrefixPool::prefix_tokens(int b, std::span<TokenId> out) const {
  for (; b != kNone; b = block(b).parent) {
    const std::span<const TokenId> own = tokens(b);
    const int64_t first = block(b).end - size_.block_positions;
    std::copy(own.begin(), own.end(), out.begin() + first);
  }
}

int PrefixPool::find(const PrefixHash& hash, int parent, const PrefixScope& scope,
                     std::span<const TokenId> wanted) const {
  for (int b = buckets_[hash.low & (buckets_.size() - 1)]; b != kNone; b = block(b).next_in_bucket) {
    const Block& found = block(b);
    if (found.hash != hash || found.parent != parent || found.state == State::kDead) continue;
    const bool same_scope = found.long_prompt == scope.long_prompt && found.scope().key == scope.key;
    if (same_scope && std::ranges::equal(tokens(b), wanted)) return b;
  }
  return kNone;
}

int PrefixPool::add(const PrefixHash& hash, int parent, const PrefixScope& scope, std::span<const TokenId> tokens,
                    State state) {
  COLIBRI_CHECK(scope.key.size() <= PrefixScope::kMaxKeyBytes);
  if (parent != kNone) ++block(parent).n_children;  // before room is made: it stays
  const int b = room();
  if (b == kNone) {
    if (parent != kNone) --block(parent).n_children;
    return kNone;
  }
  Block& added = block(b);
  added = {};
  added.hash = hash;
  added.parent = parent;
  added.end = size_.block_positions + (parent == kNone ? 0 : block(parent).end);
  added.long_prompt = scope.long_prompt;
  added.key_bytes = static_cast<uint8_t>(scope.key.size());
  std::ranges::copy(scope.key, added.key.begin());
  added.state = state;
  std::ranges::copy(tokens, tokens_.begin() + b * size_.block_positions);
  added.next_in_bucket = bucket(hash);
  bucket(hash) = b;
  link_behind(b, parent);
  return b;
}

// From its end towards its beginning, which is then the newest of all.
void PrefixPool::touch(int b) {
  for (; b != kNone; b = block(b).parent) {
    unlink(b);
    link_behind(b, kNone);
  }
}

void PrefixPool::remove(int b) {
  COLIBRI_CHECK(leaf(block(b)) && block(b).state != State::kFree);
  drop_snapshot(b);
  unhash(b);
  unlink(b);
  const int parent = block(b).parent;
  block(b).state = State::kFree;
  free_.push_back(b);
  if (parent == kNone) return;
  --block(parent).n_children;
  if (block(parent).state == State::kDead && leaf(block(parent))) remove(parent);
}

void PrefixPool::give_up(int b) {
  block(b).state = State::kDead;
  drop_snapshot(b);
  if (leaf(block(b))) remove(b);
}

int PrefixPool::take_snapshot(int b) {
  if (block(b).snapshot != kNone) return block(b).snapshot;
  Snapshot* least = nullptr;
  for (Snapshot& s : snapshots_) {
    if (s.owner != kNone && block(s.owner).n_pins > 0) continue;
    if (least == nullptr || s.used < least->used) least = &s;
  }
  if (least == nullptr) return kNone;
  if (least->owner != kNone) drop_snapshot(least->owner);
  *least = {b, ++clock_};
  return block(b).snapshot = static_cast<int>(least - snapshots_.data());
}

void PrefixPool::drop_snapshot(int b) {
  const int s = std::exchange(block(b).snapshot, kNone);
  if (s != kNone) snapshots_[static_cast<size_t>(s)] = {};
}

void PrefixPool::touch_snapshot(int b) {
  if (block(b).snapshot != kNone) snapshots_[static_cast<size_t>(block(b).snapshot)].used = ++clock_;
}

int PrefixPool::n_snapshots_used() const {
  return static_cast<int>(std::ranges::count_if(snapshots_, [](const Snapshot& s) { return s.owner != kNone; }));
}

// A free block, or that of the leaf that was used longest ago.
int PrefixPool::room() {
  if (free_.empty()) {
    int b = oldest_;
    while (b != kNone && !leaf(block(b))) b = block(b).newer;
    if (b == kNone) return kNone;
    dropped_ += block(b).wanted;
    ++evicted_;
    remove(b);
  }
  const int b = free_.back();
  free_.pop_back();
  return b;
}

// Directly behind `newer` in the order of use; kNone: before all.
void PrefixPool::link_behind(int b, int newer) {
  const int older = newer == kNone ? newest_ : block(newer).older;
  block(b).newer = newer;
  block(b).older = older;
  (newer == kNone ? newest_ : block(newer).older) = b;
  (older == kNone ? oldest_ : block(older).newer) = b;
}

void PrefixPool::unlink(int b) {
  const Block& gone = block(b);
  (gone.newer == kNone ? newest_ : block(gone.newer).older) = gone.older;
  (gone.older == kNone ? oldest_ : block(gone.older).newer) = gone.newer;
}

void PrefixPool::unhash(int b) {
  int* link = &bucket(block(b).hash);
  while (*link != b) link = &block(*link).next_in_bucket;
  *link = block(b).next_in_bucket;
}

}  // namespace colibri::kv
