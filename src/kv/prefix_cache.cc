#include "kv/prefix_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash.h"

namespace colibri::kv {
namespace {

constexpr int kNone = PrefixPool::kNone;
using State = PrefixPool::State;

int64_t snapshot_floats(const StateGeometry& states) { return StateCache::bytes({states.layer_floats, 1, 0}) / 4; }

bool has_state(const StateGeometry& states) {
  return std::ranges::any_of(states.layer_floats, [](int64_t floats) { return floats > 0; });
}

PrefixPoolSize size_of(const PrefixGeometry& g, const PrefixLayout& layout) {
  const bool recurrent = has_state(g.states);
  return {layout.positions(), layout.bytes(), recurrent ? snapshot_floats(g.states) : 0, g.n_blocks,
          recurrent ? g.n_snapshots : 0};
}

uint64_t fingerprint_of(const PrefixLayout& layout, const StateGeometry& states) {
  Fnv1a hash;
  hash.add(layout.fingerprint());
  for (const int64_t floats : states.layer_floats) hash.add(static_cast<uint64_t>(floats));
  return hash.value();
}

int64_t longest_prefix(const PrefixGeometry& g, const PrefixLayout& layout) {
  return g.kv.capacity + layout.positions();
}

}  // namespace

// A way along the blocks that tokens have in common with what is there.
struct PrefixCache::Walk {
  PrefixScope scope;
  std::span<const TokenId> tokens;
  PrefixHash hash;  ///< of what lies behind
  int last = kNone;
  int64_t position = 0;  ///< behind the last block
};

// ---- sizes
// -----------------------------------------------------------------------------------------------------------

Result<int64_t> PrefixCache::block_positions(const KvGeometry& kv) {
  COLIBRI_ASSIGN(const PrefixLayout layout, PrefixLayout::of(kv));
  return layout.positions();
}

Result<int64_t> PrefixCache::block_bytes(const KvGeometry& kv) {
  constexpr int64_t kShareOfTable = 16;
  COLIBRI_ASSIGN(const PrefixLayout layout, PrefixLayout::of(kv));
  return PrefixPool::bytes({layout.positions(), layout.bytes(), 0, 1, 0}) + kShareOfTable;
}

int64_t PrefixCache::snapshot_bytes(const StateGeometry& states) {
  return PrefixPool::bytes({0, 0, snapshot_floats(states), 0, 1}) - PrefixPool::bytes({});
}

Result<int64_t> PrefixCache::bytes(const PrefixGeometry& geometry) {
  COLIBRI_ASSIGN(const PrefixLayout layout, PrefixLayout::of(geometry.kv));
  return PrefixPool::bytes(size_of(geometry, layout)) +
         (geometry.on_disk ? PrefixDisk::bytes(longest_prefix(geometry, layout)) : 0);
}

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(const PrefixGeometry& geometry, uint64_t identity) {
  COLIBRI_ASSIGN(PrefixLayout layout, PrefixLayout::of(geometry.kv));
  COLIBRI_ASSIGN(PrefixPool pool, PrefixPool::create(size_of(geometry, layout)));
  return std::unique_ptr<PrefixCache>(new PrefixCache(geometry, identity, std::move(layout), std::move(pool)));
}

PrefixCache::PrefixCache(const PrefixGeometry& geometry, uint64_t identity, PrefixLayout layout, PrefixPool pool)
    : geometry_(geometry),
      identity_(identity),
      fingerprint_(fingerprint_of(layout, geometry.states)),
      layout_(std::move(layout)),
      recurrent_(has_state(geometry.states)),
      pool_(std::move(pool)) {}

Status PrefixCache::open_folder(PrefixDiskOptions options) {
  COLIBRI_CHECK(geometry_.on_disk && disk_ == nullptr);
  PrefixFileHead common;
  common.identity = identity_;
  common.geometry = fingerprint_;
  common.block_positions = static_cast<uint32_t>(layout_.positions());
  common.kv_type = static_cast<uint32_t>(geometry_.kv.type);
  common.block_bytes = static_cast<uint64_t>(layout_.bytes());
  COLIBRI_ASSIGN(disk_, PrefixDisk::open(std::move(options), pool_, common, longest_prefix(geometry_, layout_)));
  return {};
}

// ---- finding
// ---------------------------------------------------------------------------------------------------------

PrefixHash PrefixCache::hash(const PrefixHash& before, std::span<const TokenId> tokens) const {
  return collide_ ? PrefixHash{} : prefix_hash(before, tokens);
}

PrefixCache::Walk PrefixCache::begin(const PrefixScope& scope, std::span<const TokenId> tokens) const {
  if (scope.key.size() > PrefixScope::kMaxKeyBytes) tokens = {};
  return {scope, tokens, prefix_root(identity_, fingerprint_, scope)};
}

std::span<const TokenId> PrefixCache::next_tokens(const Walk& walk) const {
  const auto first = static_cast<size_t>(walk.position), n = static_cast<size_t>(layout_.positions());
  return first + n <= walk.tokens.size() ? walk.tokens.subspan(first, n) : std::span<const TokenId>();
}

void PrefixCache::advance(Walk& walk, const PrefixHash& name, int block) const {
  walk.hash = name;
  walk.last = block;
  walk.position += layout_.positions();
}

// To the next block, if it can be used.
bool PrefixCache::step(Walk& walk) const {
  const std::span<const TokenId> tokens = next_tokens(walk);
  if (tokens.empty()) return false;
  const PrefixHash name = hash(walk.hash, tokens);
  const int block = pool_.find(name, walk.last, walk.scope, tokens);
  if (block == kNone || pool_.block(block).state != State::kReady) return false;
  advance(walk, name, block);
  return true;
}

// A sequence can go on behind this block.
bool PrefixCache::resumable(int block) const { return !recurrent_ || pool_.block(block).snapshot != kNone; }

std::span<const TokenId> PrefixCache::but_the_last(std::span<const TokenId> prompt) {
  return prompt.first(prompt.empty() ? 0 : prompt.size() - 1);
}

PrefixCache::Found PrefixCache::find(const PrefixScope& scope, std::span<const TokenId> prompt) const {
  Found found;
  for (Walk walk = begin(scope, but_the_last(prompt)); step(walk);) {
    found.known = walk.position;
    if (resumable(walk.last)) found.resumable = walk.position;
  }
  return found;
}

int64_t PrefixCache::restore(const PrefixScope& scope, std::span<const TokenId> prompt, int slot, const KvCache& cache,
                             StateCache& states) {
  tend();
  ++statistics_.lookups;
  const int64_t resume = find(scope, prompt).resumable;
  if (resume == 0) return 0;
  Walk walk = begin(scope, prompt);
  while (walk.position < resume && step(walk)) {
    layout_.copy_in(cache, slot, walk.position - layout_.positions(), resume, pool_.data(walk.last).data());
  }
  if (recurrent_) states.restore(slot, pool_.snapshot(pool_.block(walk.last).snapshot));
  pool_.touch(walk.last);
  pool_.touch_snapshot(walk.last);
  ++statistics_.hits;
  statistics_.hit_tokens += resume;
  used_again(walk.last);
  return resume;
}

// ---- keeping
// ---------------------------------------------------------------------------------------------------------

void PrefixCache::insert(const PrefixScope& scope, std::span<const TokenId> tokens, int slot, const KvCache& cache) {
  tend();
  Walk walk = begin(scope, tokens);
  while (step(walk) || keep(walk, slot, cache)) {
  }
  pool_.touch(walk.last);
}

// The next block, which is not there yet, becomes one.
bool PrefixCache::keep(Walk& walk, int slot, const KvCache& cache) {
  const std::span<const TokenId> tokens = next_tokens(walk);
  if (tokens.empty()) return false;
  const PrefixHash name = hash(walk.hash, tokens);
  if (pool_.find(name, walk.last, walk.scope, tokens) != kNone) return false;  // the disk is about to give it
  const bool held = layout_.held(cache, slot, walk.position, static_cast<int64_t>(walk.tokens.size()));
  const int block = held ? pool_.add(name, walk.last, walk.scope, tokens, State::kReady) : kNone;
  if (block == kNone) {
    ++statistics_.refused;
    return false;
  }
  layout_.copy_out(cache, slot, walk.position, pool_.data(block).data());
  ++statistics_.inserted;
  advance(walk, name, block);
  return true;
}

void PrefixCache::snapshot(const PrefixScope& scope, std::span<const TokenId> tokens, int slot,
                           const StateCache& states) {
  if (!recurrent_) return;
  Walk walk = begin(scope, tokens);
  while (step(walk)) {
  }
  if (walk.last == kNone || walk.position != static_cast<int64_t>(tokens.size())) return;
  const bool there = pool_.block(walk.last).snapshot != kNone;
  const int snapshot = pool_.take_snapshot(walk.last);
  if (there || snapshot == kNone) return pool_.touch_snapshot(walk.last);
  states.save(slot, pool_.snapshot(snapshot));
}

// ---- the disk
// --------------------------------------------------------------------------------------------------------

bool PrefixCache::prefetch(const PrefixScope& scope, std::span<const TokenId> prompt) {
  if (!disk_) return false;
  tend();
  Walk walk = begin(scope, but_the_last(prompt));
  while (step(walk)) {
  }
  const int64_t end = on_disk_until(walk);
  bool waits = false;
  while (walk.position < end && load(walk, waits)) {
  }
  pool_.touch(walk.last);
  return waits;
}

// So far the disk has blocks behind those in memory, and a state at the end where one is needed.
int64_t PrefixCache::on_disk_until(Walk walk) const {
  int64_t end = 0;
  for (auto tokens = next_tokens(walk); !tokens.empty(); tokens = next_tokens(walk)) {
    const PrefixHash name = hash(walk.hash, tokens);
    const Stored stored = disk_->stored(name);
    if (stored == Stored::kNothing) break;
    advance(walk, name, kNone);
    if (!recurrent_ || stored == Stored::kBlockAndState) end = walk.position;
  }
  return end;
}

// Asks for the next block, unless it is on its way already. False: nothing more can be asked for now.
bool PrefixCache::load(Walk& walk, bool& waits) {
  const std::span<const TokenId> tokens = next_tokens(walk);
  const PrefixHash name = hash(walk.hash, tokens);
  int block = pool_.find(name, walk.last, walk.scope, tokens);
  if (block == kNone) {
    block = pool_.add(name, walk.last, walk.scope, tokens, State::kLoading);
    if (block == kNone) return false;
    const bool state = recurrent_ && disk_->stored(name) == Stored::kBlockAndState;
    const PrefixDisk::Job job{block, false, state ? pool_.take_snapshot(block) : kNone};
    ++pool_.block(block).n_pins;
    if (!disk_->start(job)) {
      --pool_.block(block).n_pins;
      pool_.remove(block);
      return false;
    }
  }
  waits = true;
  advance(walk, name, block);
  return true;
}

void PrefixCache::tend() {
  if (!disk_ || !disk_->anything_done()) return;
  while (const auto done = disk_->take_done()) finish(*done);
  write_wanted();
}

void PrefixCache::finish(const PrefixDisk::Done& done) {
  const int b = done.job.block;
  PrefixPool::Block& block = pool_.block(b);
  --block.n_pins;
  if (done.job.write) {
    --n_writing_;
  } else if (done.ok && (block.parent == kNone || pool_.block(block.parent).state == State::kReady)) {
    block.state = State::kReady;
  } else {
    pool_.give_up(b);
  }
}

// What is used a second time is worth a file: most prompts never come again.
void PrefixCache::used_again(int block) {
  if (!disk_) return;
  disk_->used(block);
  for (int b = block; b != kNone; b = pool_.block(b).parent) want(b);
  write_wanted();
}

void PrefixCache::want(int b) {
  PrefixPool::Block& block = pool_.block(b);
  if (block.state != State::kReady || block.wanted || block.n_pins > 0) return;
  const Stored needed = block.snapshot == kNone ? Stored::kBlock : Stored::kBlockAndState;
  if (disk_->stored(block.hash) >= needed) return;
  block.wanted = true;
  ++n_wanted_;
}

// Beginnings first; as many as the disk takes, and never so many that nobody could make room.
void PrefixCache::write_wanted() {
  if (n_wanted_ == 0) return;
  const int most = std::max(1, std::min(PrefixDisk::kMaxJobs, geometry_.n_blocks / 4));
  n_wanted_ = 0;
  for (int b = pool_.newest(); b != kNone; b = pool_.block(b).older) {
    PrefixPool::Block& block = pool_.block(b);
    if (!block.wanted) continue;
    block.wanted = disk_->writes();
    if (block.wanted && n_writing_ < most && disk_->start({b, true, block.snapshot})) {
      block.wanted = false;
      ++block.n_pins;
      ++n_writing_;
    }
    n_wanted_ += block.wanted;
  }
}

void PrefixCache::save() {
  if (!disk_) return;
  tend();
  for (int b = pool_.newest(); b != kNone; b = pool_.block(b).older) want(b);
  write_wanted();
}

int64_t PrefixCache::unsaved() {
  tend();
  return n_wanted_ + n_writing_;
}

void PrefixCache::wait_for_disk(int timeout_ms) {
  if (disk_) disk_->wait(timeout_ms);
}

PrefixStatistics PrefixCache::statistics() const {
  PrefixStatistics s = statistics_;
  const PrefixPoolSize size = size_of(geometry_, layout_);
  s.blocks = size.n_blocks;
  s.blocks_used = pool_.n_used();
  s.snapshots = size.n_snapshots;
  s.snapshots_used = pool_.n_snapshots_used();
  s.bytes = size.n_blocks * size.block_bytes + size.n_snapshots * size.snapshot_floats * 4;
  s.evicted = pool_.evicted();
  s.dropped = pool_.dropped();
  if (disk_) s.disk = disk_->statistics();
  return s;
}

}  // namespace colibri::kv
