// Keys and values into and out of the tiles of a cache (tensor/kv_view.h), over the F32x16 included before.
//
// append_kv() encodes rows; expand_keys() and expand_values() give a tile back as floats in the layout of kF32, and
// transpose_keys() makes values of the keys of a latent tile, so that attention is one piece of code for all types.
// Every operation is exact or rounds once, on every level alike: a cache
// holds the same bits whichever level wrote it.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

constexpr int64_t kScaleBlock = 32;  ///< channels that share a scale, and that are encoded at a time
constexpr float kLargestHalf = 65504.0f;

COLIBRI_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
COLIBRI_INLINE int64_t scale_blocks(int64_t channels) { return (channels + kScaleBlock - 1) / kScaleBlock; }
COLIBRI_INLINE int64_t whole_panels(int64_t channels) { return (channels + kLanes - 1) / kLanes * kLanes; }

// The scales of a kQ8 tile stand behind its elements.
COLIBRI_INLINE uint16_t* key_scales(const KvTiles& kv, unsigned char* tile) {
  return reinterpret_cast<uint16_t*>(tile + kv.key_dim * kKeyTileWidth);
}
COLIBRI_INLINE uint16_t* value_scales(const KvTiles& kv, unsigned char* tile) {
  return reinterpret_cast<uint16_t*>(tile + kv.value_offset + whole_panels(kv.value_dim) * kKeyTileWidth);
}

/// The tile of this position.
COLIBRI_INLINE unsigned char* tile_of(const KvTiles& kv, int64_t position) {
  return kv.tiles + position / kKeyTileWidth % kv.n_tiles * kv.tile_bytes;
}

/// NaN stays NaN.
COLIBRI_INLINE F32x16 saturate(F32x16 x, float bound) {
  return minimum(broadcast(bound), maximum(broadcast(-bound), x));
}

/// Up to 32 channels of one position; those that do not exist are 0.
struct Channels {
  F32x16 lo, hi;
};

COLIBRI_INLINE Channels load_channels(const float* x, int64_t n) {
  if (n <= kLanes) return {load_run(x, n), zero()};
  return {load(x), load_run(x + kLanes, n - kLanes)};
}

// encode() returns the scale that the elements are to be multiplied with, as a half; 0 where the type has none.
COLIBRI_INLINE uint16_t encode(const Channels& x, float* to) {
  store(to, x.lo);
  store(to + kLanes, x.hi);
  return 0;
}
/// Too large a number becomes the largest half: an infinite value at a later position would reach earlier rows as
/// 0 * infinity.
COLIBRI_INLINE uint16_t encode(const Channels& x, uint16_t* to) {
  store_f16(to, saturate(x.lo, kLargestHalf));
  store_f16(to + kLanes, saturate(x.hi, kLargestHalf));
  return 0;
}
COLIBRI_INLINE uint16_t encode(const Channels& x, int8_t* to) {
  const F32x16 magnitudes = maximum(maximum(x.lo, sub(zero(), x.lo)), maximum(x.hi, sub(zero(), x.hi)));
  const bool finite = sum_of_lanes(add(mul(x.lo, zero()), mul(x.hi, zero()))) == 0.0f;
  const float exact = finite ? maximum_of_lanes(magnitudes) / 127.0f : __builtin_nanf("");
  uint16_t scale[kLanes];
  store_f16(scale, saturate(broadcast(exact), kLargestHalf));
  const float rounded = first_lane(load_f16(scale));
  const bool none = !(rounded > 0.0f);
  const F32x16 inverse = broadcast(none ? 0.0f : 1.0f / rounded);
  store_i8(to, none ? zero() : saturate(mul(x.lo, inverse), 127.0f));
  store_i8(to + kLanes, none ? zero() : saturate(mul(x.hi, inverse), 127.0f));
  return scale[0];
}

template <typename Element>
void append_key(const KvTiles& kv, unsigned char* tile, int64_t position, const float* row) {
  const int64_t panel = position / kLanes, lane = position % kLanes;
  auto* keys = reinterpret_cast<Element*>(tile) + panel * kv.key_dim * kLanes + lane;
  for (int64_t d = 0; d < kv.key_dim; d += kScaleBlock) {
    const int64_t n = smaller(kScaleBlock, kv.key_dim - d);
    Element elements[kScaleBlock];
    const uint16_t scale = encode(load_channels(row + d, n), elements);
    for (int64_t i = 0; i < n; ++i) keys[(d + i) * kLanes] = elements[i];
    if (sizeof(Element) == 1)
      key_scales(kv, tile)[(panel * scale_blocks(kv.key_dim) + d / kScaleBlock) * kLanes + lane] = scale;
  }
}

template <typename Element>
void append_value(const KvTiles& kv, unsigned char* tile, int64_t position, const float* row) {
  auto* values = reinterpret_cast<Element*>(tile + kv.value_offset) + position * kLanes;
  for (int64_t d = 0; d < kv.value_dim; d += kScaleBlock) {
    const int64_t n = smaller(kScaleBlock, kv.value_dim - d);
    Element elements[kScaleBlock];
    const uint16_t scale = encode(load_channels(row + d, n), elements);
    for (int64_t i = 0; i < n; i += kLanes)
      __builtin_memcpy(values + (d + i) * kKeyTileWidth, elements + i, kLanes * sizeof(Element));
    if (sizeof(Element) == 1) value_scales(kv, tile)[d / kScaleBlock * kKeyTileWidth + position] = scale;
  }
}

template <typename Element>
void append_rows(const KvAppendJob& job) {
  for (int64_t r = 0; r < job.rows; ++r) {
    const int64_t position = job.first_position + r;
    unsigned char* tile = tile_of(job.kv, position);
    append_key<Element>(job.kv, tile, position % kKeyTileWidth, job.keys + r * job.key_stride);
    if (!job.kv.latent)
      append_value<Element>(job.kv, tile, position % kKeyTileWidth, job.values + r * job.value_stride);
  }
}

void append_kv(const KvAppendJob* job) {
  switch (job->kv.type) {
    case kKvF32:
      return append_rows<float>(*job);
    case kKvF16:
      return append_rows<uint16_t>(*job);
    case kKvQ8:
      return append_rows<int8_t>(*job);
  }
}

COLIBRI_INLINE void expand_halves(const unsigned char* from, int64_t vectors, float* out) {
  const auto* halves = reinterpret_cast<const uint16_t*>(from);
  for (int64_t i = 0; i < vectors * kLanes; i += kLanes) store(out + i, load_f16(halves + i));
}

/// The keys of a tile: whole panels of 16 positions, [first, end) of the four.
void expand_keys(const KvTiles& kv, unsigned char* tile, int64_t first, int64_t end, float* out) {
  const int64_t panel = kv.key_dim * kLanes;
  out += first * panel;
  if (kv.type == kKvF16) return expand_halves(tile + first * panel * 2, (end - first) * kv.key_dim, out);
  const auto* q = reinterpret_cast<const int8_t*>(tile) + first * panel;
  const uint16_t* scales = key_scales(kv, tile) + first * scale_blocks(kv.key_dim) * kLanes;
  for (int64_t p = first; p < end; ++p) {
    for (int64_t d = 0; d < kv.key_dim; d += kScaleBlock, scales += kLanes) {
      const F32x16 scale = load_f16(scales);
      const int64_t n = smaller(kScaleBlock, kv.key_dim - d) * kLanes;
      for (int64_t i = 0; i < n; i += kLanes) store(out + i, mul(load_i8(q + i), scale));
      q += n;
      out += n;
    }
  }
}

/// The values of the positions [first, end) of a tile.
void expand_values(const KvTiles& kv, unsigned char* tile, int64_t first, int64_t end, float* out) {
  const unsigned char* values = tile + kv.value_offset;
  const uint16_t* scales = value_scales(kv, tile);
  for (int64_t d = 0; d < kv.value_dim; d += kLanes, out += kKeyTileWidth * kLanes) {
    const int64_t start = d * kKeyTileWidth + first * kLanes;
    if (kv.type == kKvF16) {
      expand_halves(values + start * 2, end - first, out + first * kLanes);
      continue;
    }
    const auto* q = reinterpret_cast<const int8_t*>(values) + d * kKeyTileWidth;
    float scale[kKeyTileWidth];
    expand_halves(reinterpret_cast<const unsigned char*>(scales + d / kScaleBlock * kKeyTileWidth),
                  kKeyTileWidth / kLanes, scale);
    for (int64_t i = first; i < end; ++i) store(out + i * kLanes, mul(load_i8(q + i * kLanes), broadcast(scale[i])));
  }
}

/// Channels beside each other instead of positions: panels [first, end) of keys -> the values of their positions.
void transpose_keys(const KvTiles& kv, const float* keys, int64_t first, int64_t end, float* out) {
  for (int64_t d = 0; d < kv.value_dim; d += kLanes, out += kKeyTileWidth * kLanes) {
    for (int64_t p = first; p < end; ++p) {
      const float* channels[kLanes];  // those from key_dim on do not exist: any will do
      for (int64_t i = 0; i < kLanes; ++i)
        channels[i] = keys + (p * kv.key_dim + smaller(d + i, kv.key_dim - 1)) * kLanes;
      for (int64_t i = 0; i < kLanes; i += 4) {
        F32x16 position[4];
        load_columns(channels, i, position);
        COLIBRI_UNROLL
        for (int64_t j = 0; j < 4; ++j) store(out + (p * kLanes + i + j) * kLanes, position[j]);
      }
    }
  }
}

}  // namespace
}  // namespace colibri::compute
