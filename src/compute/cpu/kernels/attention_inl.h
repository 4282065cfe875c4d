// Attention of up to kAttentionRows query rows over one KV head: online softmax over tiles of keys.
//
// What a row computes depends on its own position alone: tiles start at absolute positions, keys that the row does not
// see have probability exactly 0 (and add exactly nothing), and a tile without visible keys changes nothing.
// Values that stand between those that the rows of a call see must be finite; keys beside visible ones are read (16 lie
// side by side) but never used.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/kv_inl.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/tile_inl.h"

namespace colibri::compute {
namespace {

/// Keys [begin, end) of a tile; nothing when begin >= end.
struct KeyRange {
  int64_t begin, end;

  bool empty() const { return begin >= end; }
  void widen(KeyRange other) {
    begin = other.begin < begin ? other.begin : begin;
    end = other.end > end ? other.end : end;
  }
  int64_t first_panel() const { return begin / kLanes; }
  int64_t end_panel() const { return (end + kLanes - 1) / kLanes; }
};
constexpr KeyRange kNoKeys = {kKeyTileWidth, 0}, kAllKeys = {0, kKeyTileWidth};

/// The parts of AttentionJob::scratch, and the running state of the softmax.
struct AttentionWork {
  const AttentionJob& job;
  int64_t width;         ///< value_dim rounded up to panels
  float* queries;        ///< packed tiles [key_dim][rows]
  float* probabilities;  ///< [kAttentionRows][kKeyTileWidth], first the scores
  float* sums;           ///< [kAttentionRows][16] lanes
  float* out;            ///< [kAttentionRows][width]
  float* key_floats;     ///< a tile's keys, unless they are floats already
  float* value_floats;   ///< a tile's values, likewise; where its keys were, unless they are made of those: both would
                         ///< not stay in the first-level cache
  float largest[kAttentionRows];
  int64_t row[kAttentionRows];                                         ///< of the segment
  int64_t head[kAttentionRows];                                        ///< of the group
  int64_t first_visible[kAttentionRows], end_visible[kAttentionRows];  ///< positions
  const uint64_t* allowed = nullptr;                                   ///< of the set of keys at hand; null: all
  // Of the tile at hand.
  bool whole = false;  ///< every item sees every key: then the next two are not filled in
  KeyRange ranges[kAttentionRows];
  uint64_t seen_keys[kAttentionRows];  ///< within that range, when only some are allowed
  const float* keys = nullptr;

  explicit AttentionWork(const AttentionJob& j)
      : job(j),
        width(whole_panels(j.kv.value_dim)),
        queries(j.scratch),
        probabilities(queries + kAttentionRows * whole_panels(j.kv.key_dim)),
        sums(probabilities + kAttentionRows * kKeyTileWidth),
        out(sums + kAttentionRows * kLanes),
        key_floats(out + kAttentionRows * width),
        value_floats(j.kv.latent ? key_floats + kKeyTileWidth * whole_panels(j.kv.key_dim) : key_floats) {}

  const float* query(int64_t item) const { return job.q + row[item] * job.q_stride + head[item] * job.kv.key_dim; }
  float* output(int64_t item) const { return job.out + row[item] * job.out_stride + head[item] * job.kv.value_dim; }
  KeyRange seen_by(int64_t item) const { return whole ? kAllKeys : ranges[item]; }
  KeyRange seen_by(int64_t first, int64_t items) const {
    if (whole) return kAllKeys;
    KeyRange all = kNoKeys;
    for (int64_t i = first; i < first + items; ++i) all.widen(ranges[i]);
    return all;
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
  const int64_t key_dim = work.job.kv.key_dim;
  float* packed = work.queries + first * key_dim;
  for (int64_t begin = 0; begin < key_dim; begin += kStep) {
    const int64_t end = smaller(begin + kStep, key_dim);
    for (int64_t r = 0; r < rows; ++r) {
      const float* q = work.query(first + r);
      for (int64_t d = begin; d < end; ++d) packed[d * rows + r] = q[d];
    }
  }
}

/// Where an item is, and the positions that it sees as far as its own decides.
void place_item(AttentionWork& work, int64_t item) {
  const AttentionJob& job = work.job;
  work.row[item] = (job.first_item + item) / job.group;
  work.head[item] = (job.first_item + item) % job.group;
  const int64_t position = job.first_position + work.row[item];
  int64_t first = 0;
  if (job.window > 0 && position >= job.window) first = position - job.window + 1;
  if (job.chunk > 0 && position / job.chunk * job.chunk > first) first = position / job.chunk * job.chunk;
  work.first_visible[item] = first;
  work.end_visible[item] = position + 1;
}

/// A sink is the first term of the softmax.
void start_item(AttentionWork& work, int64_t item) {
  float* sums = work.sums + item * kLanes;
  work.largest[item] = -__builtin_inff();
  store(sums, zero());
  for (int64_t d = 0; d < work.width; d += kLanes) store(work.out + item * work.width + d, zero());
  if (work.job.sinks == nullptr) return;
  work.largest[item] = work.job.sinks[work.head[item]];
  sums[0] = 1.0f;
}

void start_attention(AttentionWork& work) {
  for (int64_t i = 0; i < work.job.items; ++i) {
    place_item(work, i);
    start_item(work, i);
  }
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) { pack_queries(work, first, rows); });
}

/// Of the visible keys, those that are allowed.
COLIBRI_INLINE void look_at_allowed(AttentionWork& work, int64_t item, int64_t first_key) {
  KeyRange& seen = work.ranges[item];
  if (seen.empty()) return;
  const uint64_t word = work.allowed[work.row[item] * work.job.allowed_stride + first_key / kKeyTileWidth];
  const uint64_t keys = word >> seen.begin << seen.begin << (kKeyTileWidth - seen.end) >> (kKeyTileWidth - seen.end);
  work.seen_keys[item] = keys;
  seen = kNoKeys;
  if (keys != 0) seen = {__builtin_ctzll(keys), kKeyTileWidth - __builtin_clzll(keys)};
}

/// What the items see of a tile; the result is what any of them sees.
KeyRange look_at_tile(AttentionWork& work, int64_t first_key) {
  const int64_t items = work.job.items;
  work.whole = work.allowed == nullptr && work.first_visible[items - 1] <= first_key &&
               work.end_visible[0] >= first_key + kKeyTileWidth;
  for (int64_t item = 0; item < items && !work.whole; ++item) {
    const int64_t begin = work.first_visible[item] - first_key, end = work.end_visible[item] - first_key;
    const KeyRange seen = {begin > 0 ? begin : 0, smaller(end, kKeyTileWidth)};
    work.ranges[item] = seen.empty() ? kNoKeys : seen;
    if (work.allowed != nullptr) look_at_allowed(work, item, first_key);
  }
  return work.seen_by(0, items);
}

void score_keys(AttentionWork& work, unsigned char* stored, KeyRange keys) {
  const int64_t panel_floats = work.job.kv.key_dim * kLanes;
  work.keys = work.key_floats;
  if (work.job.kv.type == kKvF32) {
    work.keys = reinterpret_cast<const float*>(stored);
  } else {
    expand_keys(work.job.kv, stored, keys.first_panel(), keys.end_panel(), work.key_floats);
  }
  TileJob tile;
  tile.k = work.job.kv.key_dim;
  tile.panel_stride = panel_floats * static_cast<int64_t>(sizeof(float));
  tile.c_stride = kKeyTileWidth;
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    const KeyRange seen = work.seen_by(first, rows);
    if (seen.empty()) return;
    tile.panels = work.keys + seen.first_panel() * panel_floats;
    tile.n = (seen.end_panel() - seen.first_panel()) * kLanes;
    tile.a = work.queries + first * work.job.kv.key_dim;
    tile.rows = rows;
    tile.c = work.probabilities + first * kKeyTileWidth + seen.first_panel() * kLanes;
    multiply<Packed, F32Weights, kTileRows>(tile);
  });
}

constexpr int kTileVectors = kKeyTileWidth / kLanes;

/// Scores of keys outside the range, computed or not, become minus infinity.
COLIBRI_INLINE void hide_keys(KeyRange seen, F32x16 (&scores)[kTileVectors]) {
  const F32x16 hidden = broadcast(-__builtin_inff());
  COLIBRI_UNROLL
  for (int i = 0; i < kTileVectors; ++i) {
    const F32x16 begin = broadcast(static_cast<float>(seen.begin - i * kLanes));
    const F32x16 end = broadcast(static_cast<float>(seen.end - i * kLanes));
    scores[i] = select_less(lane_numbers(), end, scores[i], hidden);
    scores[i] = select_less(lane_numbers(), begin, hidden, scores[i]);
  }
}

/// Likewise for all but these keys.
COLIBRI_INLINE void hide_keys(uint64_t seen, F32x16 (&scores)[kTileVectors]) {
  float shown[kKeyTileWidth];
  for (int i = 0; i < kKeyTileWidth; ++i) shown[i] = static_cast<float>(static_cast<int>(seen >> i & 1));
  COLIBRI_UNROLL
  for (int i = 0; i < kTileVectors; ++i)
    scores[i] = select_less(zero(), load(shown + i * kLanes), scores[i], broadcast(-__builtin_inff()));
}

COLIBRI_INLINE void scale_row(float* row, int64_t n, F32x16 factor) {
  for (int64_t i = 0; i < n; i += kLanes) store(row + i, mul(load(row + i), factor));
}

/// Scores of one row -> exp(score - largest so far); the sums and outputs of earlier tiles follow a larger maximum.
void soften_row(AttentionWork& work, int64_t item) {
  float* row = work.probabilities + item * kKeyTileWidth;
  F32x16 scores[kTileVectors], largest = broadcast(-__builtin_inff());
  COLIBRI_UNROLL
  for (int i = 0; i < kTileVectors; ++i) scores[i] = mul(load(row + i * kLanes), broadcast(work.job.scale));
  if (work.job.soft_cap != 0.0f) {
    const F32x16 cap = broadcast(work.job.soft_cap);
    for (int i = 0; i < kTileVectors; ++i) scores[i] = mul(hyperbolic_tangent(div(scores[i], cap)), cap);
  }
  const KeyRange seen = work.seen_by(item);
  if (work.allowed != nullptr) {
    hide_keys(work.seen_keys[item], scores);
  } else if (seen.begin > 0 || seen.end < kKeyTileWidth) {
    hide_keys(seen, scores);
  }
  COLIBRI_UNROLL
  for (int i = 0; i < kTileVectors; ++i) largest = maximum(largest, scores[i]);
  const float tile_largest = maximum_of_lanes(largest), before = work.largest[item];
  const float after = tile_largest > before ? tile_largest : before;
  F32x16 sums = zero();
  COLIBRI_UNROLL
  for (int i = 0; i < kTileVectors; ++i) {
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

void soften_scores(AttentionWork& work) {
  for (int64_t item = 0; item < work.job.items; ++item) {
    if (!work.seen_by(item).empty()) {
      soften_row(work, item);
    } else {
      for (int i = 0; i < kKeyTileWidth; i += kLanes) store(work.probabilities + item * kKeyTileWidth + i, zero());
    }
  }
}

const float* tile_values(const AttentionWork& work, unsigned char* stored, KeyRange keys) {
  const KvTiles& kv = work.job.kv;
  if (kv.latent) {
    transpose_keys(kv, work.keys, keys.first_panel(), keys.end_panel(), work.value_floats);
  } else if (kv.type == kKvF32) {
    return reinterpret_cast<const float*>(stored + kv.value_offset);
  } else {
    expand_values(kv, stored, keys.begin, keys.end, work.value_floats);
  }
  return work.value_floats;
}

void add_values(AttentionWork& work, unsigned char* stored, KeyRange keys) {
  const float* values = tile_values(work, stored, keys);
  TileJob tile;
  tile.panel_stride = kKeyTileWidth * kLanes * static_cast<int64_t>(sizeof(float));
  tile.n = work.width;
  tile.c_stride = work.width;
  tile.accumulate = true;
  for_each_tile(work.job.items, [&](int64_t first, int64_t rows) {
    const KeyRange seen = work.seen_by(first, rows);
    if (seen.empty()) return;
    tile.panels = values + seen.begin * kLanes;
    tile.k = seen.end - seen.begin;
    tile.a = work.probabilities + first * kKeyTileWidth + seen.begin;
    tile.rows = rows;
    tile.c = work.out + first * work.width;
    multiply<SeparateRows<kKeyTileWidth>, F32Weights, kTileRows>(tile);
  });
}

void finish_attention(AttentionWork& work) {
  for (int64_t item = 0; item < work.job.items; ++item) {
    const F32x16 sum = broadcast(sum_of_lanes(load(work.sums + item * kLanes)));
    const float* from = work.out + item * work.width;
    float* to = work.output(item);
    for_each_run(work.job.kv.value_dim, [&](int64_t d, int64_t lanes) {
      // Adding 0 turns -0 into 0: the sign of a zero may depend on how many hidden keys were added.
      store_run(to + d, lanes, add(div(load(from + d), sum), zero()));
    });
  }
}

/// One set of keys, of which the items see those that were set before.
void attend_to(AttentionWork& work, const KvTiles& kv) {
  const int64_t begin = work.first_visible[0] / kKeyTileWidth * kKeyTileWidth;
  const int64_t end = work.end_visible[work.job.items - 1];
  for (int64_t key = begin; key < end; key += kKeyTileWidth) {
    const KeyRange seen = look_at_tile(work, key);
    if (seen.empty()) continue;
    unsigned char* stored = tile_of(kv, key);
    score_keys(work, stored, seen);
    soften_scores(work);
    add_values(work, stored, seen);
  }
}

/// A row sees the entries all of whose positions are up to its own.
void attend_to_entries(AttentionWork& work) {
  const AttentionJob& job = work.job;
  for (int64_t item = 0; item < job.items; ++item) {
    work.first_visible[item] = 0;
    work.end_visible[item] = (job.first_position + work.row[item] + 1) / job.rate;
  }
  work.allowed = job.allowed;
  attend_to(work, job.entries);
}

void attention(const AttentionJob* job) {
  AttentionWork work(*job);
  start_attention(work);
  if (job->rate == 0) work.allowed = job->allowed;
  attend_to(work, job->kv);
  if (job->rate > 0) attend_to_entries(work);
  finish_attention(work);
}

}  // namespace
}  // namespace colibri::compute
