#include "model/workspace.h"

#include <algorithm>

#include "model/rope.h"
#include "platform/memory.h"

namespace colibri::model {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest width that any layer needs of each buffer.
struct Widths {
  int64_t q = 0, k = 0, v = 0, gate = 0, attended = 0;
  int64_t q_rank = 0, q_rope = 0, latent = 0, k_rope = 0, q_latent = 0, latent_out = 0, nope = 0;
  int64_t index_q = 0, index_k = 0, index_weights = 0;
  int64_t decay = 0, beta = 0, down = 0, mlp = 0;
  int64_t entries = 0, group = 0;

  static void raise(int64_t& width, int64_t wanted) { width = std::max(width, wanted); }

  void cover(const AttentionSpec& a) {
    raise(attended, a.output_width());
    raise(gate, a.output_gate == OutputGate::kNone ? 0 : a.output_width());
    if (a.shared_key) return cover_shared(a);
    if (!a.latent()) {
      raise(q, a.query_width());
      raise(k, a.key_width());
      raise(v, a.value_width());
      return;
    }
    const int64_t heads = a.n_heads, key = a.latent_dim + a.rope_dim();
    raise(q, heads * a.nope_dim);
    raise(k, key);
    raise(q_rank, a.query_rank);
    raise(q_rope, heads * a.rope_dim());
    raise(latent, a.latent_dim);
    raise(k_rope, a.rope_dim());
    raise(q_latent, heads * key);
    raise(latent_out, heads * a.latent_dim);
    raise(nope, a.nope_dim);
    raise(index_q, int64_t{a.indexer.n_heads} * a.indexer.head_dim);
    raise(index_k, a.indexer.head_dim);
    raise(index_weights, a.indexer.n_heads);
  }

  void cover_shared(const AttentionSpec& a) {
    const int halves = a.compressor.overlap ? 2 : 1;
    raise(q, a.query_width());
    raise(k, a.head_dim);
    raise(q_rank, a.query_rank);
    raise(down, int64_t{a.output_groups} * a.output_rank);
    raise(group, a.output_width() / a.output_groups);
    if (a.compressor.rate == 0) return;
    raise(entries, std::max(a.head_dim, a.indexer.head_dim));
    for (int64_t* width : {&v, &gate}) raise(*width, halves * entries);
    raise(index_q, int64_t{a.indexer.n_heads} * a.indexer.head_dim);
    raise(index_weights, a.indexer.n_heads);
  }

  void cover(const DeltaSpec& d) {
    raise(q, d.key_width());
    raise(k, d.key_width());
    for (int64_t* width : {&v, &gate, &attended}) raise(*width, d.value_width());
    raise(beta, d.n_value_heads);
    raise(decay, int64_t{d.n_value_heads} * (d.decay == DeltaDecay::kPerHead ? 1 : d.key_dim));
    raise(down, d.gate_rank);
  }

  void cover(const MambaSpec& m) {
    raise(q, m.conv_width());
    raise(gate, m.inner());
    raise(attended, m.inner());
    raise(beta, m.n_heads);
  }

  explicit Widths(const ModelSpec& spec) {
    mlp = spec.moe.shared_width;
    for (const LayerSpec& layer : spec.layers) {
      raise(mlp, layer.dense_width);
      if (layer.mixer == Mixer::kAttention) cover(spec.attention_of(layer));
      if (layer.mixer == Mixer::kDelta) cover(spec.delta);
      if (layer.mixer == Mixer::kMamba) cover(spec.mamba);
      if (layer.mixer == Mixer::kShortConv)
        for (int64_t* width : {&q, &k, &v}) raise(*width, spec.hidden_size);
    }
  }

  /// The widest input of a product.
  int64_t widest() const { return std::max({q, k, v, attended, q_rank, down, mlp}); }
};

// Hands out consecutive pieces; with a null base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  T* take(int64_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += platform::aligned_bytes(count * static_cast<int64_t>(sizeof(T)));
    return piece;
  }
  Rows rows(int64_t n, int64_t width) { return {take<float>(n * width), n, width}; }
  Buffer buffer(int64_t n, int64_t width) { return {take<float>(n * width), n * width}; }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

bool any(const ModelSpec& spec, bool LayerSpec::*flag) {
  return std::any_of(spec.layers.begin(), spec.layers.end(), [flag](const LayerSpec& l) { return l.*flag; });
}

bool parallel_experts(const ModelSpec& spec) {
  return std::any_of(spec.layers.begin(), spec.layers.end(),
                     [](const LayerSpec& l) { return l.moe && l.dense_width > 0; });
}

void carve_mixers(const Widths& widths, int64_t n, Carver& carver, Workspace& w) {
  w.q = carver.buffer(n, widths.q);
  w.k = carver.buffer(n, widths.k);
  w.v = carver.buffer(n, widths.v);
  w.gate = carver.buffer(n, widths.gate);
  w.attended = carver.buffer(n, widths.attended);
  w.q_rank = carver.buffer(n, widths.q_rank);
  w.q_rope = carver.buffer(n, widths.q_rope);
  w.latent = carver.buffer(n, widths.latent);
  w.k_rope = carver.buffer(n, widths.k_rope);
  w.q_latent = carver.buffer(n, widths.q_latent);
  w.latent_out = carver.buffer(n, widths.latent_out);
  w.index_q = carver.buffer(n, widths.index_q);
  w.index_k = carver.buffer(n, widths.index_k);
  w.index_weights = carver.buffer(n, widths.index_weights);
  w.entries = carver.buffer(n, widths.entries);
  w.entry_positions = carver.take<int32_t>(widths.entries > 0 ? n : 0);
  w.decay = carver.buffer(n, widths.decay);
  w.beta = carver.buffer(n, widths.beta);
  w.down = carver.buffer(n, widths.down);
}

void carve_experts(const ModelSpec& spec, const DecoderLimits& limits, Carver& carver, Workspace& w) {
  const int64_t n = limits.max_rows, hidden = spec.hidden_size, top_k = spec.moe.router.top_k;
  w.expert_input = carver.rows(spec.moe.own_norms ? n : 0, hidden);
  w.shared = carver.rows(spec.moe.shared_width > 0 ? n : 0, hidden);
  w.guess = carver.rows(limits.guesses_per_row > 0 ? limits.max_apart_rows : 0, hidden);
  w.router_logits = carver.rows(n, spec.moe.router.n_experts);
  w.shared_gate = carver.rows(n, 1);
  w.stored_ids = carver.take<int32_t>(spec.moe.identity_experts > 0 ? n * top_k : 0);
  w.guessed_ids = carver.take<int32_t>(limits.max_apart_rows * top_k);
  w.guessed_weights = carver.take<float>(limits.max_apart_rows * top_k);
}

void carve_ropes(const ModelSpec& spec, int64_t context, Carver& carver, Workspace& w) {
  for (const RopeSpec& rope : spec.ropes) {
    const int64_t floats = rope_table_floats(rope, context);
    compute::RopeTable table;
    float *cos = carver.take<float>(floats), *sin = carver.take<float>(floats);
    table.interleaved = rope.interleaved;
    table.rotary_dim = rope.rotary_dim;
    table.cos = cos;
    table.sin = sin;
    if (cos != nullptr) fill_rope_tables(rope, context, cos, sin);
    w.ropes.push_back(table);
  }
}

/// The most keys that an indexer chooses among.
int64_t indexed_keys(const ModelSpec& spec, int64_t context) {
  int64_t keys = 0;
  for (const AttentionSpec& a : spec.attentions)
    if (a.indexer.n_heads > 0) Widths::raise(keys, ceil_div(context, std::max(1, a.compressor.rate)));
  return keys;
}

Carried carve_lane(const ModelSpec& spec, int64_t n, int64_t context, Carver& carver) {
  Carried c;
  c.x = carver.rows(n, spec.hidden_size);
  c.streams = carver.rows(spec.streams.n > 0 ? n : 0, int64_t{spec.streams.n} * spec.hidden_size);
  c.late = carver.rows(any(spec, &LayerSpec::late_moe) ? n : 0, spec.hidden_size);
  if (const int64_t keys = indexed_keys(spec, context); keys > 0) {
    c.chosen.words_per_row = ceil_div(keys, compute::kKeyTile);
    c.chosen.words = carver.take<uint64_t>(n * c.chosen.words_per_row);
  }
  const bool has_long =
      std::any_of(spec.ropes.begin(), spec.ropes.end(), [](const RopeSpec& r) { return r.has_long(); });
  c.long_angles = has_long ? carver.take<int32_t>(n) : nullptr;
  c.branch = carver.rows(n, spec.hidden_size);
  c.mixed = carver.rows(parallel_experts(spec) ? n : 0, spec.hidden_size);
  c.expert_ids = carver.take<int32_t>(n * spec.moe.router.top_k);
  c.expert_weights = carver.take<float>(n * spec.moe.router.top_k);
  return c;
}

Workspace carve(const ModelSpec& spec, const DecoderLimits& limits, Carver& carver) {
  const int64_t n = limits.max_rows, hidden = spec.hidden_size;
  const Widths widths(spec);
  Workspace w;
  const int64_t streams = spec.streams.n;
  w.lanes[static_cast<size_t>(Lane::kDecode)] = carve_lane(spec, limits.max_decode_rows, limits.context, carver);
  w.lanes[static_cast<size_t>(Lane::kPrefill)] = carve_lane(spec, n, limits.context, carver);
  w.normed_streams = carver.rows(streams > 0 ? n : 0, streams * hidden);
  w.stream_weights = carver.buffer(n, (2 + streams) * streams);
  w.normed = carver.rows(n, hidden);
  carve_mixers(widths, n, carver, w);
  w.mlp_gate = carver.buffer(n, widths.mlp);
  w.mlp_up = carver.buffer(n, widths.mlp);
  carve_experts(spec, limits, carver, w);
  w.logits = carver.rows(limits.max_logit_rows, spec.vocab_size);
  w.logit_input = carver.rows(limits.max_logit_rows, hidden);
  carve_ropes(spec, limits.context, carver, w);
  return w;
}

}  // namespace

int64_t workspace_bytes(const ModelSpec& spec, const DecoderLimits& limits) {
  Carver counter(nullptr);
  carve(spec, limits, counter);
  return counter.used();
}

Workspace lay_out(const ModelSpec& spec, const DecoderLimits& limits, std::byte* memory) {
  Carver carver(memory);
  return carve(spec, limits, carver);
}

compute::BackendLimits backend_limits(const ModelSpec& spec, const DecoderLimits& limits) {
  const Widths widths(spec);
  compute::BackendLimits b;
  b.max_rows = std::max(limits.max_rows, limits.max_logit_rows);
  b.max_inputs = std::max(
      {int64_t{spec.hidden_size} * std::max(1, spec.streams.n), widths.widest(), int64_t{spec.moe.expert_width}});
  b.max_expert_width = spec.moe.expert_width;
  b.max_expert_inputs = spec.hidden_size;
  b.max_group_inputs = std::max({widths.nope, widths.latent, widths.group});
  b.n_experts = spec.moe.router.n_experts;
  b.top_k = spec.moe.router.top_k;
  const std::vector<kv::KvLayer> caches = kv_layers(spec);
  const size_t n = spec.layers.size();
  for (size_t i = 0; i < caches.size(); ++i) {
    const kv::KvLayer& kv = caches[i];
    if (kv.kv_heads == 0) continue;
    if (i / n == 1) {
      b.index_key_dim = std::max(b.index_key_dim, kv.key_dim);
      continue;
    }
    b.key_dim = std::max(b.key_dim, kv.key_dim);
    b.value_dim = std::max(b.value_dim, kv.value_dim);
    b.n_kv_heads = std::max(b.n_kv_heads, kv.kv_heads);
    b.n_heads = std::max(b.n_heads, spec.attention_of(spec.layers[i % n]).n_heads);
    b.index_heads = std::max(b.index_heads, spec.attention_of(spec.layers[i % n]).indexer.n_heads);
  }
  b.index_positions = indexed_keys(spec, limits.context);
  b.max_segments = limits.max_segments;
  b.max_apart_rows = limits.max_apart_rows;
  return b;
}

}  // namespace colibri::model
