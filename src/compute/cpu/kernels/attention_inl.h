// Causal attention of up to kAttentionRows query rows over one KV head: online softmax over tiles of keys.
//
// What a row computes depends on its own position alone: tiles start at absolute positions, keys after the row have
// probability exactly 0 (and add exactly nothing), and a tile without visible keys changes nothing.
// Values of later positions must be finite; keys of later positions are read (16 lie side by side) but never used.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
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
  float largest[kAttentionRows];

  int64_t position(int64_t item) const { return job.first_position + (job.first_item + item) / job.group; }
  int64_t offset(int64_t item) const {
    const int64_t i = job.first_item + item;
    return i / job.group * job.row_stride + i % job.group * job.head_dim;
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

void start_attention(AttentionWork& work) {
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    float* packed = work.queries + first * work.job.head_dim;
    for (int64_t r = 0; r < rows; ++r) {
      const float* q = work.job.q + work.offset(first + r);
      for (int64_t d = 0; d < work.job.head_dim; ++d) packed[d * rows + r] = q[d];
    }
  });
  for (int64_t i = 0; i < work.job.items; ++i) {
    work.largest[i] = -__builtin_inff();
    store(work.sums + i * kLanes, zero());
    for (int64_t d = 0; d < work.width; d += kLanes) store(work.out + i * work.width + d, zero());
  }
}

void score_keys(AttentionWork& work, int64_t first_key, int64_t keys) {
  TileJob tile;
  tile.k = work.job.head_dim;
  tile.panels = work.job.keys + first_key * work.job.head_dim;
  tile.panel_stride = work.job.head_dim * kLanes * static_cast<int64_t>(sizeof(float));
  tile.n = (keys + kLanes - 1) / kLanes * kLanes;
  tile.c_stride = kKeyTileWidth;
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    if (work.position(first + rows - 1) < first_key) return;
    tile.a = work.queries + first * work.job.head_dim;
    tile.rows = rows;
    tile.c = work.probabilities + first * kKeyTileWidth;
    multiply<Packed, F32Weights, kTileRows>(tile);
  });
}

COLIBRI_INLINE void scale_row(float* row, int64_t n, F32x16 factor) {
  for (int64_t i = 0; i < n; i += kLanes) store(row + i, mul(load(row + i), factor));
}

/// Scores of one row -> exp(score - largest so far); the sums and outputs of earlier tiles follow a larger maximum.
void soften_row(AttentionWork& work, int64_t item, int64_t visible, int64_t computed) {
  float* row = work.probabilities + item * kKeyTileWidth;
  const F32x16 scale = broadcast(work.job.scale), lowest = broadcast(-__builtin_inff());
  F32x16 largest = lowest;
  for (int64_t i = 0; i < computed; i += kLanes) {
    F32x16 scores = mul(load(row + i), scale);
    if (i + kLanes > visible)
      scores = select_less(lane_numbers(), broadcast(static_cast<float>(visible - i)), scores, lowest);
    store(row + i, scores);
    largest = maximum(largest, scores);
  }
  const float tile_largest = maximum_of_lanes(largest), before = work.largest[item];
  const float after = tile_largest > before ? tile_largest : before;
  F32x16 sums = zero();
  for (int64_t i = 0; i < computed; i += kLanes) {
    const F32x16 p = exponential(sub(load(row + i), broadcast(after)));
    store(row + i, p);
    sums = add(sums, p);
  }
  float* running = work.sums + item * kLanes;
  if (after != before) {
    const F32x16 factor = exponential(sub(broadcast(before), broadcast(after)));
    store(running, mul(load(running), factor));
    scale_row(work.out + item * work.width, work.width, factor);
    work.largest[item] = after;
  }
  store(running, add(load(running), sums));
}

void soften_scores(AttentionWork& work, int64_t first_key, int64_t keys) {
  const int64_t computed = (keys + kLanes - 1) / kLanes * kLanes;
  for (int64_t item = 0; item < work.job.items; ++item) {
    const int64_t visible = work.position(item) + 1 - first_key;
    if (visible > 0) {
      soften_row(work, item, visible, computed);
    } else {
      for (int64_t i = 0; i < computed; i += kLanes) store(work.probabilities + item * kKeyTileWidth + i, zero());
    }
  }
}

void add_values(AttentionWork& work, int64_t first_key, int64_t keys) {
  TileJob tile;
  tile.k = keys;
  tile.panels = work.job.values + first_key * kLanes;
  tile.panel_stride = work.job.capacity * kLanes * static_cast<int64_t>(sizeof(float));
  tile.n = work.width;
  tile.c_stride = work.width;
  tile.accumulate = true;
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    if (work.position(first + rows - 1) < first_key) return;
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
    for_each_run(work.job.head_dim, [&](int64_t d, int64_t lanes) {
      // Adding 0 turns -0 into 0: the sign of a zero may depend on how many masked keys were added.
      store_run(to + d, lanes, add(div(load(from + d), sum), zero()));
    });
  }
}

void attention(const AttentionJob* job) {
  const int64_t width = (job->head_dim + kLanes - 1) / kLanes * kLanes;
  float* queries = job->scratch;
  float* probabilities = queries + kAttentionRows * width;
  float* sums = probabilities + kAttentionRows * kKeyTileWidth;
  AttentionWork work{*job, width, queries, probabilities, sums, sums + kAttentionRows * kLanes, {}};
  start_attention(work);
  const int64_t end = work.position(job->items - 1) + 1;
  for (int64_t key = 0; key < end; key += kKeyTileWidth) {
    const int64_t keys = end - key < kKeyTileWidth ? end - key : kKeyTileWidth;
    score_keys(work, key, keys);
    soften_scores(work, key, keys);
    add_values(work, key, keys);
  }
  finish_attention(work);
}

}  // namespace
}  // namespace colibri::compute
