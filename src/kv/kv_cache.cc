#include "kv/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace colibri::kv {
namespace {

constexpr int64_t whole_tiles(int64_t positions) {
  return (positions + KvView::kTile - 1) / KvView::kTile * KvView::kTile;
}

// The first row of a pass looks back `window` positions, itself included, when all the others are written already.
int64_t positions_of(const KvLayer& layer, const KvGeometry& g) {
  if (layer.window <= 0) return whole_tiles((g.capacity + layer.rate - 1) / layer.rate);
  return whole_tiles(std::min(g.capacity, layer.window + std::max<int64_t>(1, g.pass_rows) - 1));
}

KvView shape_of(const KvLayer& layer, const KvGeometry& g) {
  return {nullptr, g.type, positions_of(layer, g), layer.kv_heads, layer.key_dim, layer.value_dim, layer.latent};
}

int64_t slot_bytes(const KvGeometry& g) {
  int64_t bytes = 0;
  for (const KvLayer& layer : g.layers) bytes += shape_of(layer, g).bytes();
  return bytes;
}

}  // namespace

int64_t KvCache::bytes(const KvGeometry& geometry) { return slot_bytes(geometry) * geometry.n_slots; }

Result<KvCache> KvCache::create(const KvGeometry& geometry) {
  KvCache cache;
  cache.geometry_ = geometry;
  for (const KvLayer& layer : geometry.layers) {
    cache.layer_offsets_.push_back(cache.slot_bytes_);
    cache.slot_bytes_ += shape_of(layer, geometry).bytes();
  }
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

bool KvCache::holds(int64_t position, int64_t written) const {
  return std::all_of(geometry_.layers.begin(), geometry_.layers.end(), [&](const KvLayer& layer) {
    const int64_t first_seen = std::max<int64_t>(0, position - layer.window + 1);
    return layer.window <= 0 || first_seen >= written - positions_of(layer, geometry_);
  });
}

KvView KvCache::view(int slot, int layer) const {
  const auto i = static_cast<size_t>(layer);
  KvView view = shape_of(geometry_.layers[i], geometry_);
  if (view.kv_heads > 0) view.data = arena_.data() + slot * slot_bytes_ + layer_offsets_[i];
  return view;
}

}  // namespace colibri::kv
