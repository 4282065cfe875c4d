// The attention of DeepSeek-V4: one key for all heads, which is also their value, in a window; and beside it compressed
// keys, each for a run of earlier positions: all of those, or the ones that an indexer chose. Both kinds are turned to
// where they stand, as values too, so outputs are turned back to where their query stands.
#include <cmath>

#include "model/decoder.h"

namespace colibri::model {
namespace {

compute::CompressParams compressor_of(const AttentionSpec& a, int head_dim, const CompressorWeights& w) {
  return {a.compressor.rate, a.compressor.overlap, head_dim, w.bias};
}

// The state of the indexer's compressor lies behind that of the keys', aligned.
int64_t index_state(const AttentionSpec& a) { return (compressor_of(a, a.head_dim, {}).state_floats() + 15) / 16 * 16; }

}  // namespace

int64_t compressor_state_floats(const AttentionSpec& a) {
  if (a.compressor.rate == 0) return 0;
  return index_state(a) + compressor_of(a, a.indexer.head_dim, {}).state_floats();
}

void Decoder::compressed_attention(int layer, const Batch& batch, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const AttentionWeights& w = layer_weights(layer).attention;
  const Rows attended = ws_.attended.rows(x.rows, a.output_width()),
             reduced = ws_.down.rows(x.rows, int64_t{a.output_groups} * a.output_rank);

  const Rows q = ranked_queries(a, w, batch, x);
  const Rows k = shared_keys(a, w, batch, x);
  if (a.compressor.rate > 0) compress(layer, batch, x);
  if (a.indexer.n_heads > 0) choose_entries(layer, batch, x);
  attend(layer, batch, q, k, {}, attended);
  rope_tail(a, attended, a.head_dim, batch.positions, true);
  backend.multiply_groups(attended, w.output_down, reduced);
  backend.matmul(reduced, w.output, nullptr, out);
}

// Leaves the normed query rank in ws_.q_rank, for the indexer.
Rows Decoder::ranked_queries(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const Rows rank = ws_.q_rank.rows(x.rows, a.query_rank), q = ws_.q.rows(x.rows, a.query_width());
  backend.matmul(x, w.q_down, nullptr, rank);
  backend.rms_norm(rank, w.q_down_norm, a.latent_norm_eps, rank);
  backend.matmul(rank, w.q, nullptr, q);
  backend.rms_norm(q.reshaped(a.head_dim), nullptr, parts_.spec->norm_eps, q.reshaped(a.head_dim));
  rope_tail(a, q, a.head_dim, batch.positions);
  return q;
}

Rows Decoder::shared_keys(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x) {
  const Rows k = ws_.k.rows(x.rows, a.head_dim);
  parts_.backend->matmul(x, w.k, nullptr, k);
  parts_.backend->rms_norm(k, w.k_norm, a.latent_norm_eps, k);
  rope_tail(a, k, a.head_dim, batch.positions);
  return k;
}

// The last elements of each head turn.
void Decoder::rope_tail(const AttentionSpec& a, Rows x, int head_dim, std::span<const int32_t> positions,
                        bool inverse) {
  compute::RopeTable table = ws_.ropes[static_cast<size_t>(a.rope)];
  table.first = head_dim - table.rotary_dim;
  table.inverse = inverse;
  parts_.backend->rope(x, head_dim, positions, table);
}

void Decoder::compress(int layer, const Batch& batch, Rows x) {
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const CompressorWeights& w = layer_weights(layer).attention.compressor;
  add_entries(layer, batch, w, compressor_of(a, a.head_dim, w), 0, 2 * parts_.spec->n_layers() + layer, x);
}

void Decoder::compress_index(int layer, const Batch& batch, Rows x) {
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const CompressorWeights& w = layer_weights(layer).attention.indexer.compressor;
  const compute::CompressParams params = compressor_of(a, a.indexer.head_dim, w);
  add_entries(layer, batch, w, params, index_state(a), parts_.spec->n_layers() + layer, x);
}

// What the rows complete goes into a plane of the cache, turned to its first position. `state`: where that of this
// compressor begins in the layer's.
void Decoder::add_entries(int layer, const Batch& batch, const CompressorWeights& w,
                          const compute::CompressParams& params, int64_t state, int plane, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const Rows kv = ws_.v.rows(x.rows, params.row_width()), gate = ws_.gate.rows(x.rows, params.row_width());
  const compute::Product both[] = {{&w.kv, nullptr, kv}, {&w.gate, nullptr, gate}};
  backend.multiply(x, both);
  const int64_t n = place_entries(layer, batch, params.rate, state, plane);
  const Rows entries = ws_.entries.rows(n, params.channels);
  backend.compress(kv, gate, compressed_, params, entries);
  if (n == 0) return;
  backend.rms_norm(entries, w.norm, a.latent_norm_eps, entries);
  rope_tail(a, entries, static_cast<int>(params.channels), {ws_.entry_positions, static_cast<size_t>(n)});
  backend.kv_append(entries, {}, segments_);
}

// Where entries come from (compressed_) and where they go (segments_, ws_.entry_positions). Their number: at most one
// for each row.
int64_t Decoder::place_entries(int layer, const Batch& batch, int64_t rate, int64_t state, int plane) {
  compressed_.clear();  // capacities were reserved: no allocation
  segments_.clear();
  int64_t n = 0;
  for (const BatchSegment& s : batch.segments) {
    compressed_.push_back({parts_.states->state(s.slot, layer) + state, s.first_row, s.n_rows, s.first_position, n});
    const int64_t count = compressed_.back().n_entries(rate), first = s.first_position / rate;
    segments_.push_back({parts_.cache->view(s.slot, plane), n, count, first});
    for (int64_t i = 0; i < count; ++i) ws_.entry_positions[n++] = static_cast<int32_t>((first + i) * rate);
  }
  return n;
}

// score = sum over the indexer's heads of weight * heads^-0.5 * relu(q . k * dim^-0.5)
void Decoder::choose_entries(int layer, const Batch& batch, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const IndexerSpec& i = a.indexer;
  const IndexerWeights& w = layer_weights(layer).attention.indexer;
  const Rows q = ws_.index_q.rows(x.rows, int64_t{i.n_heads} * i.head_dim),
             weights = ws_.index_weights.rows(x.rows, i.n_heads);
  compress_index(layer, batch, x);
  backend.matmul(ws_.q_rank.rows(x.rows, a.query_rank), w.q, nullptr, q);
  rope_tail(a, q, i.head_dim, batch.positions);
  backend.matmul(x, w.weights, nullptr, weights);
  backend.scale(weights, static_cast<float>(1.0 / std::sqrt(static_cast<double>(i.n_heads) * i.head_dim)));
  fill_segments(parts_.spec->n_layers() + layer, batch);
  for (compute::AttentionSegment& segment : segments_) segment.rate = a.compressor.rate;
  backend.select_keys(q, weights, segments_, i.top_k, ws_.chosen);
}

}  // namespace colibri::model
