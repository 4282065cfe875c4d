// Causal attention of up to kAttentionRows query rows over one KV head: online softmax over tiles of keys.
//
// What a row computes depends on its own position alone: tiles start at absolute positions, keys after the row have
// probability exactly 0 (and add exactly nothing), and a tile without visible keys changes nothing.
// Values of later positions must be finite; keys of later positions are read (16 lie side by side) but never used.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/kv_inl.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/tile_inl.h"

namespace colibri::compute {
namespace {

/// The parts of AttentionJob::scratch, and the running state of the softmax.
struct AttentionWork {
  const AttentionJob& job;
  int64_t width;         ///< head_dim rounded up to panels
  float* queries;        ///< packed tiles [head_dim][rows]
  float* probabilities;  ///< [kAttentionRows][kKeyTileWidth], first the scores
  float* sums;           ///< [kAttentionRows][16] lanes
  float* out;            ///< [kAttentionRows][width]
  float* expanded;       ///< a tile's keys or values, unless they are floats already
  float largest[kAttentionRows];

  int64_t position(int64_t item) const { return job.first_position + (job.first_item + item) / job.group; }
  int64_t offset(int64_t item) const {
    const int64_t i = job.first_item + item;
    return i / job.group * job.row_stride + i % job.group * job.kv.head_dim;
  }
  unsigned char* tile(int64_t key) const { return job.kv.tiles + key / kKeyTileWidth * job.kv.tile_bytes; }
  const void* keys(int64_t first_key, int64_t n) const {
    if (job.kv.type == kKvF32) return tile(first_key);
    expand_keys(job.kv, tile(first_key), n, expanded);
    return expanded;
  }
  const void* values(int64_t first_key, int64_t n) const {
    if (job.kv.type == kKvF32) return tile(first_key) + job.kv.value_offset;
    expand_values(job.kv, tile(first_key), n, expanded);
    return expanded;
  }
};

/// Calls body(first, rows) for tiles of nearly equal size.
template <typename Body>
COLIBRI_INLINE void for_each_tile(int64_t items, Body body) {
  const int64_t tiles = (items + kTileRows - 1) / kTileRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = items * t / tiles;
    body(first, items * (t + 1) / tiles - first);
  }
}

/// packed[d][rows] = the queries of a tile of items.
void pack_queries(const AttentionWork& work, int64_t first, int64_t rows) {
  constexpr int64_t kStep = 32;  // so that the part being written stays in the first-level cache
  float* packed = work.queries + first * work.job.kv.head_dim;
  for (int64_t begin = 0; begin < work.job.kv.head_dim; begin += kStep) {
    const int64_t end = smaller(begin + kStep, work.job.kv.head_dim);
    for (int64_t r = 0; r < rows; ++r) {
      const float* q = work.job.q + work.offset(first + r);
      for (int64_t d = begin; d < end; ++d) packed[d * rows + r] = q[d];
    }
  }
}

void start_attention(AttentionWork& work) {
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) { pack_queries(work, first, rows); });
  for (int64_t i = 0; i < work.job.items; ++i) {
    work.largest[i] = -__builtin_inff();
    store(work.sums + i * kLanes, zero());
    for (int64_t d = 0; d < work.width; d += kLanes) store(work.out + i * work.width + d, zero());
  }
}

void score_keys(AttentionWork& work, int64_t first_key, int64_t keys) {
  TileJob tile;
  tile.k = work.job.kv.head_dim;
  tile.panels = work.keys(first_key, keys);
  tile.panel_stride = work.job.kv.head_dim * kLanes * static_cast<int64_t>(sizeof(float));
  tile.c_stride = kKeyTileWidth;
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    const int64_t visible = smaller(keys, work.position(first + rows - 1) + 1 - first_key);
    if (visible <= 0) return;
    tile.n = whole_panels(visible);
    tile.a = work.queries + first * work.job.kv.head_dim;
    tile.rows = rows;
    tile.c = work.probabilities + first * kKeyTileWidth;
    multiply<Packed, F32Weights, kTileRows>(tile);
  });
}

COLIBRI_INLINE void scale_row(float* row, int64_t n, F32x16 factor) {
  for (int64_t i = 0; i < n; i += kLanes) store(row + i, mul(load(row + i), factor));
}

/// Scores of one row -> exp(score - largest so far); the sums and outputs of earlier tiles follow a larger maximum.
/// Keys from `visible` on, computed or not, have probability 0.
void soften_row(AttentionWork& work, int64_t item, int64_t visible) {
  constexpr int kVectors = kKeyTileWidth / kLanes;
  float* row = work.probabilities + item * kKeyTileWidth;
  const F32x16 lowest = broadcast(-__builtin_inff());
  F32x16 scores[kVectors], largest = lowest;
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) scores[i] = mul(load(row + i * kLanes), broadcast(work.job.scale));
  if (visible < kKeyTileWidth) {
    COLIBRI_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const F32x16 end = broadcast(static_cast<float>(visible - i * kLanes));
      scores[i] = select_less(lane_numbers(), end, scores[i], lowest);
    }
  }
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) largest = maximum(largest, scores[i]);
  const float tile_largest = maximum_of_lanes(largest), before = work.largest[item];
  const float after = tile_largest > before ? tile_largest : before;
  F32x16 sums = zero();
  COLIBRI_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const F32x16 p = small_exponential(sub(scores[i], broadcast(after)));
    store(row + i * kLanes, p);
    sums = add(sums, p);
  }
  float* running = work.sums + item * kLanes;
  if (after != before) {
    const F32x16 factor = small_exponential(sub(broadcast(before), broadcast(after)));
    store(running, mul(load(running), factor));
    scale_row(work.out + item * work.width, work.width, factor);
    work.largest[item] = after;
  }
  store(running, add(load(running), sums));
}

void soften_scores(AttentionWork& work, int64_t first_key) {
  for (int64_t item = 0; item < work.job.items; ++item) {
    const int64_t visible = work.position(item) + 1 - first_key;
    if (visible > 0) {
      soften_row(work, item, visible);
    } else {
      for (int i = 0; i < kKeyTileWidth; i += kLanes) store(work.probabilities + item * kKeyTileWidth + i, zero());
    }
  }
}

void add_values(AttentionWork& work, int64_t first_key, int64_t keys) {
  TileJob tile;
  tile.panels = work.values(first_key, keys);
  tile.panel_stride = kKeyTileWidth * kLanes * static_cast<int64_t>(sizeof(float));
  tile.n = work.width;
  tile.c_stride = work.width;
  tile.accumulate = true;
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    tile.k = smaller(keys, work.position(first + rows - 1) + 1 - first_key);
    if (tile.k <= 0) return;
    tile.a = work.probabilities + first * kKeyTileWidth;
    tile.rows = rows;
    tile.c = work.out + first * work.width;
    multiply<SeparateRows<kKeyTileWidth>, F32Weights, kTileRows>(tile);
  });
}

void finish_attention(AttentionWork& work) {
  for (int64_t item = 0; item < work.job.items; ++item) {
    const F32x16 sum = broadcast(sum_of_lanes(load(work.sums + item * kLanes)));
    const float* from = work.out + item * work.width;
    float* to = work.job.out + work.offset(item);
    for_each_run(work.job.kv.head_dim, [&](int64_t d, int64_t lanes) {
      // Adding 0 turns -0 into 0: the sign of a zero may depend on how many masked keys were added.
      store_run(to + d, lanes, add(div(load(from + d), sum), zero()));
    });
  }
}

void attention(const AttentionJob* job) {
  const int64_t width = (job->kv.head_dim + kLanes - 1) / kLanes * kLanes;
  float* queries = job->scratch;
  float* probabilities = queries + kAttentionRows * width;
  float* sums = probabilities + kAttentionRows * kKeyTileWidth;
  float* out = sums + kAttentionRows * kLanes;
  AttentionWork work{*job, width, queries, probabilities, sums, out, out + kAttentionRows * width, {}};
  start_attention(work);
  const int64_t end = work.position(job->items - 1) + 1;
  for (int64_t key = 0; key < end; key += kKeyTileWidth) {
    const int64_t keys = end - key < kKeyTileWidth ? end - key : kKeyTileWidth;
    score_keys(work, key, keys);
    soften_scores(work, key);
    add_values(work, key, keys);
  }
  finish_attention(work);
}

}  // namespace
}  // namespace colibri::compute
