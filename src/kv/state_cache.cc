#include "kv/state_cache.h"

#include <algorithm>

#include "base/check.h"

namespace colibri::kv {
namespace {

/// Rounded up so that what follows is aligned too.
int64_t padded(int64_t floats) {
  return platform::aligned_bytes(floats * int64_t{sizeof(float)}) / int64_t{sizeof(float)};
}

int64_t floats_of_slot(const StateGeometry& g) {
  int64_t floats = 0;
  for (int64_t layer : g.layer_floats) floats += padded(layer);
  return floats;
}

}  // namespace

int64_t StateCache::bytes(const StateGeometry& geometry) {
  return floats_of_slot(geometry) * int64_t{sizeof(float)} * (geometry.n_slots + geometry.n_checkpoints);
}

Result<StateCache> StateCache::create(const StateGeometry& geometry) {
  StateCache cache;
  for (int64_t layer : geometry.layer_floats) {
    cache.offsets_.push_back(layer > 0 ? cache.slot_floats_ : -1);
    cache.slot_floats_ += padded(layer);
  }
  cache.n_slots_ = geometry.n_slots;
  cache.checkpoints_.resize(static_cast<size_t>(geometry.n_checkpoints));
  COLIBRI_ASSIGN(cache.arena_, platform::Arena::allocate(bytes(geometry)));
  return cache;
}

std::span<float> StateCache::block(int64_t index) const {
  return {reinterpret_cast<float*>(arena_.data()) + index * slot_floats_, static_cast<size_t>(slot_floats_)};
}

std::span<float> StateCache::slot_state(int slot) const {
  COLIBRI_CHECK(slot >= 0 && slot < n_slots_);
  return block(slot);
}

std::span<float> StateCache::stored(const Checkpoint& c) const { return block(n_slots_ + (&c - checkpoints_.data())); }

float* StateCache::state(int slot, int layer) const {
  const int64_t offset = offsets_[static_cast<size_t>(layer)];
  return offset < 0 ? nullptr : slot_state(slot).data() + offset;
}

void StateCache::reset(int slot) { resume(slot, 0); }

void StateCache::save(int slot, std::span<float> out) const {
  const std::span<float> state = slot_state(slot);
  COLIBRI_CHECK(out.size() == state.size());
  std::copy(state.begin(), state.end(), out.begin());
}

void StateCache::restore(int slot, std::span<const float> in) {
  const std::span<float> state = slot_state(slot);
  COLIBRI_CHECK(in.size() == state.size());
  std::copy(in.begin(), in.end(), state.begin());
  forget_beyond(slot, 0);
}

void StateCache::checkpoint(int slot, int64_t position) {
  if (checkpoints_.empty() || position == 0) return;
  Checkpoint* c = find(slot, position);
  if (c == nullptr) c = &least_recent();
  *c = {slot, position, ++clock_};
  save(slot, stored(*c));
}

int64_t StateCache::resumable(int slot, int64_t position) const {
  int64_t best = 0;
  for (const Checkpoint& c : checkpoints_)
    if (c.slot == slot && c.position <= position) best = std::max(best, c.position);
  return best;
}

void StateCache::resume(int slot, int64_t position) {
  const std::span<float> state = slot_state(slot);
  if (position == 0) {
    std::fill(state.begin(), state.end(), 0.0f);
  } else {
    Checkpoint* c = find(slot, position);
    COLIBRI_CHECK(c != nullptr);
    c->used = ++clock_;
    const std::span<float> from = stored(*c);
    std::copy(from.begin(), from.end(), state.begin());
  }
  forget_beyond(slot, position);
}

StateCache::Checkpoint* StateCache::find(int slot, int64_t position) {
  for (Checkpoint& c : checkpoints_)
    if (c.slot == slot && c.position == position) return &c;
  return nullptr;
}

StateCache::Checkpoint& StateCache::least_recent() {
  return *std::min_element(checkpoints_.begin(), checkpoints_.end(),
                           [](const Checkpoint& a, const Checkpoint& b) { return a.used < b.used; });
}

void StateCache::forget_beyond(int slot, int64_t position) {
  for (Checkpoint& c : checkpoints_)
    if (c.slot == slot && c.position > position) c = {};
}

}  // namespace colibri::kv
