#include "kv/kv_cache.h"

#include "base/check.h"

namespace colibri::kv {
namespace {

int64_t rounded_capacity(const KvGeometry& geometry) { return (geometry.capacity + 15) / 16 * 16; }

KvView shape_of(const KvGeometry& geometry) {
  return {nullptr, nullptr, rounded_capacity(geometry), geometry.kv_heads, geometry.head_dim};
}

int64_t key_floats(const KvView& view) { return view.key_head_floats() * view.kv_heads; }
int64_t layer_floats(const KvView& view) { return key_floats(view) + view.value_head_floats() * view.kv_heads; }

}  // namespace

int64_t KvCache::bytes(const KvGeometry& geometry) {
  return layer_floats(shape_of(geometry)) * geometry.n_layers * geometry.n_slots * static_cast<int64_t>(sizeof(float));
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
  auto* base = reinterpret_cast<float*>(arena_.data());
  view.keys = base + index * layer_floats(view);
  view.values = view.keys + key_floats(view);
  return view;
}

}  // namespace colibri::kv
