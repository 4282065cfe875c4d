// The tile registers of AMX int8 in plain C, for tests on processors without them. Aborts where the processor would
// fault, and on tiles that are used before they are configured.
// Thread-safety: each thread has its own registers, as on the processor.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/tile_config.h"

namespace colibri::compute {
namespace {

struct EmulatedTiles {
  TileConfig config;  ///< palette 0: none
  uint8_t bytes[kTiles][kTileHeight][kTileRowBytes];
};
inline EmulatedTiles& emulated_tiles() {
  static thread_local EmulatedTiles tiles = {};
  return tiles;
}

inline void require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "emulated tiles: %s\n", what);
  abort();
}
inline const TileConfig& shape_with(int tile) {
  const TileConfig& config = emulated_tiles().config;
  require(config.palette == 1, "no configuration");
  require(tile >= 0 && tile < kTiles && config.rows[tile] > 0, "no such tile");
  return config;
}

/// Sets the shapes of all tiles and clears them.
inline void tile_configure(const TileConfig& config) {
  require(config.palette == 1 && config.start_row == 0, "palette 1 from row 0 is expected");
  for (uint8_t byte : config.reserved) require(byte == 0, "reserved bytes are set");
  for (int t = 0; t < 16; ++t) {
    require(config.rows[t] <= (t < kTiles ? kTileHeight : 0), "too many rows");
    require(config.row_bytes[t] <= kTileRowBytes, "too wide");
    require((config.rows[t] == 0) == (config.row_bytes[t] == 0), "half of a shape");
  }
  memset(&emulated_tiles(), 0, sizeof(EmulatedTiles));
  emulated_tiles().config = config;
}
/// Until the next tile_configure there are no tiles, and nothing to save when threads change places.
inline void tile_release() { memset(&emulated_tiles(), 0, sizeof(EmulatedTiles)); }

template <int kTile>
void tile_zero() {
  shape_with(kTile);
  memset(emulated_tiles().bytes[kTile], 0, sizeof emulated_tiles().bytes[kTile]);
}
/// All rows of the tile, `stride` bytes apart.
template <int kTile>
void tile_load(const void* p, int64_t stride) {
  const TileConfig& config = shape_with(kTile);
  tile_zero<kTile>();
  for (int r = 0; r < config.rows[kTile]; ++r)
    memcpy(emulated_tiles().bytes[kTile][r], static_cast<const uint8_t*>(p) + r * stride, config.row_bytes[kTile]);
}
template <int kTile>
void tile_store(void* p, int64_t stride) {
  const TileConfig& config = shape_with(kTile);
  for (int r = 0; r < config.rows[kTile]; ++r)
    memcpy(static_cast<uint8_t*>(p) + r * stride, emulated_tiles().bytes[kTile][r], config.row_bytes[kTile]);
}

inline void require_product(const TileConfig& c, int sums, int rows, int weights) {
  require(sums != rows && sums != weights && rows != weights, "a product of a tile with itself");
  require(c.row_bytes[sums] % 4 == 0 && c.row_bytes[rows] % 4 == 0 && c.row_bytes[weights] % 4 == 0, "ragged rows");
  require(c.rows[sums] == c.rows[rows] && c.row_bytes[rows] / 4 == c.rows[weights] &&
              c.row_bytes[sums] == c.row_bytes[weights],
          "shapes do not fit");
}

/// sums[r][o] += over t and i < 4: rows[r][4 t + i] * weights[t][4 o + i]. Rows are signed bytes; weights are if
/// kSigned.
template <bool kSigned, int kSums, int kRows, int kWeights>
void tile_dot() {
  require_product(shape_with(kSums), kSums, kRows, kWeights);
  const TileConfig& c = shape_with(kRows);
  auto& tiles = emulated_tiles().bytes;
  for (int r = 0; r < c.rows[kSums]; ++r) {
    int32_t sums[kTileRowBytes / 4];
    memcpy(sums, tiles[kSums][r], sizeof sums);
    for (int b = 0; b < c.row_bytes[kRows]; ++b)
      for (int o = 0; o < c.row_bytes[kSums] / 4; ++o) {
        const uint8_t w = tiles[kWeights][b / 4][4 * o + b % 4];
        sums[o] += static_cast<int8_t>(tiles[kRows][r][b]) * (kSigned ? static_cast<int8_t>(w) : w);
      }
    memcpy(tiles[kSums][r], sums, sizeof sums);
  }
}

}  // namespace
}  // namespace colibri::compute
