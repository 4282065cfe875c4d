// How the tile registers of AMX are shaped, for tiles_amx.h and tiles_emulated.h alike.
//
// A product of tiles adds rows [height, depth] of activations times weights [depth, 16] to sums [height, 16]. Four
// tiles hold sums, two activations, two weights, so that products follow each other without waiting.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace colibri::compute {
namespace {

constexpr int kTileHeight = 16;              ///< most rows of a tile
constexpr int kTileRowBytes = 64;            ///< most bytes of a row
constexpr int kTileInts = kTileHeight * 16;  ///< of a tile of sums
constexpr int kSumTile = 0, kRowTile = 4, kWeightTile = 6, kTiles = 8;

/// The operand of ldtileconfig.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64 && offsetof(TileConfig, row_bytes) == 16 && offsetof(TileConfig, rows) == 48);

/// depth: activations of a row, a multiple of 4.
constexpr TileConfig tile_config(int height, int depth) {
  TileConfig c = {};
  c.palette = 1;
  for (int tile = 0; tile < kTiles; ++tile) {
    const bool of_rows = tile >= kRowTile && tile < kWeightTile;
    c.rows[tile] = static_cast<uint8_t>(tile < kWeightTile ? height : depth / 4);
    c.row_bytes[tile] = static_cast<uint16_t>(of_rows ? depth : kTileRowBytes);
  }
  return c;
}

struct TileConfigs {
  TileConfig of_height[kTileHeight + 1];
};
constexpr TileConfigs tile_configs(int depth) {
  TileConfigs all = {};
  for (int height = 1; height <= kTileHeight; ++height) all.of_height[height] = tile_config(height, depth);
  return all;
}
// Constants, so that no compiler can leave them half written.
constexpr TileConfigs kConfigs32 = tile_configs(32), kConfigs64 = tile_configs(64);

}  // namespace
}  // namespace colibri::compute
