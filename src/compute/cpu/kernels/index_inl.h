// Scores of cached keys for a sparse attention to choose from: Backend::select_keys.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/attention_inl.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/kv_inl.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/tile_inl.h"

namespace colibri::compute {
namespace {

struct IndexWork {
  const IndexJob& job;
  float* queries;     ///< packed tiles [key_dim][heads]
  float* products;    ///< [kMaxTileRows][kKeyTileWidth]
  float* key_floats;  ///< a tile's keys, unless they are floats already
};

void pack_index_queries(const IndexWork& work) {
  for_each_tile(work.job.heads, [&](int64_t first, int64_t rows) {
    const float* x[kMaxTileRows];
    for (int64_t r = 0; r < rows; ++r) x[r] = work.job.q + (first + r) * work.job.kv.key_dim;
    pack_tile(x, rows, work.job.kv.key_dim, work.queries + first * work.job.kv.key_dim);
  });
}

/// Panels [0, panels) of a tile.
void score_tile(const IndexWork& work, const float* keys, int64_t panels, float* scores) {
  TileJob tile;
  tile.k = work.job.kv.key_dim;
  tile.panels = keys;
  tile.panel_stride = tile.k * kLanes * static_cast<int64_t>(sizeof(float));
  tile.n = panels * kLanes;
  tile.c = work.products;
  tile.c_stride = kKeyTileWidth;
  F32x16 sums[kTileVectors];
  for (int64_t p = 0; p < panels; ++p) sums[p] = zero();
  for_each_tile(work.job.heads, [&](int64_t first, int64_t rows) {
    tile.a = work.queries + first * tile.k;
    tile.rows = rows;
    multiply<Packed, F32Weights, kTileRows>(tile);
    for (int64_t r = 0; r < rows; ++r) {
      const F32x16 weight = broadcast(work.job.weights[first + r]);
      const float* products = work.products + r * kKeyTileWidth;
      for (int64_t p = 0; p < panels; ++p) sums[p] = fma(weight, maximum(load(products + p * kLanes), zero()), sums[p]);
    }
  });
  for (int64_t p = 0; p < panels; ++p) store(scores + p * kLanes, add(sums[p], zero()));
}

void index_scores(const IndexJob* job) {
  float* products = job->scratch + job->heads * job->kv.key_dim;
  const IndexWork work{*job, job->scratch, products, products + kMaxTileRows * kKeyTileWidth};
  pack_index_queries(work);
  for (int64_t key = job->first_key; key < job->end_key; key += kKeyTileWidth) {
    const int64_t panels = whole_panels(smaller(job->end_key - key, kKeyTileWidth)) / kLanes;
    unsigned char* stored = tile_of(job->kv, key);
    const bool floats = job->kv.type == kKvF32;
    if (!floats) expand_keys(job->kv, stored, 0, panels, work.key_floats);
    score_tile(work, floats ? reinterpret_cast<const float*>(stored) : work.key_floats, panels,
               job->scores + (key - job->first_key));
  }
}

}  // namespace
}  // namespace colibri::compute
