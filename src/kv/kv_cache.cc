#include "kv/kv_cache.h"

#include "base/check.h"

namespace colibri::kv {
namespace {

KvView shape_of(const KvGeometry& g) {
  const int64_t tiles = (g.capacity + KvView::kTile - 1) / KvView::kTile;
  return {nullptr, g.type, tiles * KvView::kTile, g.kv_heads, g.head_dim};
}

}  // namespace

int64_t KvCache::bytes(const KvGeometry& geometry) {
  return shape_of(geometry).bytes() * geometry.n_layers * geometry.n_slots;
}

Result<KvCache> KvCache::create(const KvGeometry& geometry) {
  KvCache cache;
  cache.geometry_ = geometry;
  COLIBRI_ASSIGN(cache.arena_, platform::Arena::allocate(bytes(geometry)));
  for (int slot = geometry.n_slots - 1; slot >= 0; --slot) cache.free_slots_.push_back(slot);
  return cache;
}

int KvCache::take_slot() {
  if (free_slots_.empty()) return -1;
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void KvCache::release_slot(int slot) {
  COLIBRI_CHECK(slot >= 0 && slot < geometry_.n_slots);
  free_slots_.push_back(slot);
}

KvView KvCache::view(int slot, int layer) const {
  KvView view = shape_of(geometry_);
  const int64_t index = static_cast<int64_t>(slot) * geometry_.n_layers + layer;
  view.data = arena_.data() + index * view.bytes();
  return view;
}

}  // namespace colibri::kv
