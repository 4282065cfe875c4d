// A view of keys and values as the kernels see it. For the operations of this folder.
#pragma once

#include "compute/cpu/kernels/kernel_table.h"
#include "tensor/kv_view.h"

namespace colibri::compute {

/// The tiles of one KV head.
inline KvTiles tiles_of(const KvView& kv, int64_t head) {
  KvTiles tiles;
  tiles.tiles = reinterpret_cast<unsigned char*>(kv.data) + head * kv.head_bytes();
  tiles.n_tiles = kv.capacity / KvView::kTile;
  tiles.tile_bytes = kv.tile_bytes();
  tiles.value_offset = kv.key_bytes();
  tiles.key_dim = kv.key_dim;
  tiles.value_dim = kv.value_dim;
  tiles.type = static_cast<KvElements>(kv.type);
  tiles.latent = kv.latent;
  return tiles;
}

}  // namespace colibri::compute
