// KvView: the keys and values of one sequence in one layer, as the attention kernels read them.
//
// Positions lie in tiles of 64 per KV head, keys then values, so that a head is one stream of memory:
//
//   [kv_heads][capacity / 64] { keys, values }
//
//   type  keys of a tile, d: key_dim                     values of a tile, d: value_dim, w: d in whole panels of 16
//   kF32  float [4][d][16]                               float [w / 16][64][16]
//   kF16  half  [4][d][16]                               half  [w / 16][64][16]
//   kQ8   int8  [4][d][16], half scales[4][d / 32][16]   int8  [w / 16][64][16], half scales[d / 32][64]
//
// A ring: position p lies in tile p / 64 % (capacity / 64), so a view of fewer positions than its sequence holds the
// newest. A latent view stores keys only; the value of a position is the first value_dim channels of its key. Without
// values (value_dim 0), keys can be looked up but not attended to.
// Keys: 16 positions side by side, so scores are one chain over d. Values: 16 channels side by side, so outputs are one
// chain over positions. kQ8: the channels 32 i .. 32 i + 31 of a position share a scale, x = scale * q (d / 32 rounds
// up). Every part is a multiple of 64 bytes. Rounding (kernels/kv_inl.h): kF16 to nearest even, beyond the largest half
// to that; kQ8 scale = largest magnitude / 127 as a half, q = x / scale to nearest even. A NaN stays one (kQ8: with its
// whole block). Positions not yet written hold no promise: kernels may load a key that stands beside written ones, but
// no result may depend on it. The view borrows its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace colibri {

enum class KvType : uint8_t { kF32, kF16, kQ8 };

/// "f32", "f16", "q8": the values of the setting kv_type.
std::string_view name(KvType type);
std::optional<KvType> kv_type_named(std::string_view name);

struct KvView {
  static constexpr int64_t kTile = 64;

  std::byte* data = nullptr;
  KvType type = KvType::kF32;
  int64_t capacity = 0;  ///< positions, a multiple of kTile
  int kv_heads = 0;
  int key_dim = 0;
  int value_dim = 0;
  bool latent = false;  ///< values are the first value_dim <= key_dim channels of the keys

  int stored_value_dim() const { return latent ? 0 : value_dim; }
  int64_t key_bytes() const;    ///< of a tile
  int64_t value_bytes() const;  ///< of a tile
  int64_t tile_bytes() const { return key_bytes() + value_bytes(); }
  int64_t head_bytes() const { return capacity / kTile * tile_bytes(); }
  int64_t bytes() const { return head_bytes() * kv_heads; }
};

}  // namespace colibri
