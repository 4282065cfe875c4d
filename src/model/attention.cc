// Stop 6 of a token's life: attention over everything before it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/math.h"
#include "model/decoder.h"

namespace colibri::model {

std::vector<kv::KvLayer> kv_layers(const ModelSpec& spec) {
  const size_t n = spec.layers.size();
  std::vector<kv::KvLayer> layers(3 * n);
  for (size_t l = 0; l < n; ++l) {
    if (spec.layers[l].mixer != Mixer::kAttention) continue;
    const AttentionSpec& a = spec.attention_of(spec.layers[l]);
    kv::KvLayer& kv = layers[l];
    kv.kv_heads = a.latent() ? 1 : a.n_kv_heads;
    kv.key_dim = a.latent() ? a.latent_dim + a.rope_dim() : a.head_dim;
    kv.value_dim = a.latent() ? a.latent_dim : a.value_dim;
    kv.latent = a.latent() || a.shared_key;
    kv.window = a.window > 0 ? a.window : a.chunk;
    const int64_t rate = std::max(1, a.compressor.rate);
    if (a.indexer.n_heads > 0 && !a.shares_indexer) layers[n + l] = {1, a.indexer.head_dim, 0, false, 0, rate};
    if (a.compressor.rate > 0) layers[2 * n + l] = {1, kv.key_dim, kv.value_dim, true, 0, rate};
  }
  return layers;
}

// out = output(attention(x))
void Decoder::attention(int layer, const Batch& batch, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const AttentionWeights& w = layer_weights(layer).attention;
  const Rows q = ws_.q.rows(x.rows, a.query_width()), k = ws_.k.rows(x.rows, a.key_width()),
             v = ws_.v.rows(x.rows, a.value_width()), attended = ws_.attended.rows(x.rows, a.output_width()),
             gate = ws_.gate.rows(x.rows, w.gate.n);

  compute::Product projections[4] = {{&w.q, w.q_bias, q}, {&w.k, w.k_bias, k}};
  size_t n = 2;
  if (!a.value_is_key) projections[n++] = {&w.v, w.v_bias, v};
  if (w.gate.n > 0) projections[n++] = {&w.gate, nullptr, gate};
  backend.multiply(x, {projections, n});
  if (a.value_is_key) std::memcpy(v.data, k.data, static_cast<size_t>(k.rows * k.width) * sizeof(float));
  if (a.value_norm) {
    const Rows heads = v.reshaped(a.value_dim);
    backend.rms_norm(heads, nullptr, parts_.spec->norm_eps, heads);
  }
  if (a.value_scale != 1.0f) backend.scale(v, a.value_scale);
  norm_and_rope(a, w, batch, q, k);
  if (a.clip_qkv > 0) backend.clamp(v, a.clip_qkv);
  attend(layer, batch, q, k, v, attended);
  if (w.gate.n > 0) backend.scale_by_sigmoid(attended, gate);
  backend.matmul(attended, w.output, w.output_bias, out);
}

void Decoder::norm_and_rope(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows q, Rows k) {
  compute::Backend& backend = *parts_.backend;
  const auto turn = [&] {
    rope(a.rope, q, a.head_dim, batch);
    rope(a.rope, k, a.head_dim, batch);
  };
  if (a.norm_after_rope) turn();
  if (a.qk_norm != QkNorm::kNone) {
    const bool whole = a.qk_norm == QkNorm::kFullRow;
    const Rows q_view = whole ? q : q.reshaped(a.head_dim), k_view = whole ? k : k.reshaped(a.head_dim);
    backend.rms_norm(q_view, w.q_norm, parts_.spec->norm_eps, q_view);
    backend.rms_norm(k_view, w.k_norm, parts_.spec->norm_eps, k_view);
  }
  if (a.clip_qkv > 0)
    for (const Rows& rows : {q, k}) backend.clamp(rows, a.clip_qkv);
  if (!a.norm_after_rope) turn();
  temper(a, batch, q);
}

// Llama 4 sharpens the queries of late positions in layers without RoPE.
void Decoder::temper(const AttentionSpec& a, const Batch& batch, Rows q) {
  if (a.temperature_scale == 0) return;
  for (int64_t r = 0; r < q.rows; ++r) {
    const double step =
        std::floor((batch.positions[static_cast<size_t>(r)] + 1.0) / static_cast<double>(a.temperature_floor));
    const double factor = 1.0 + static_cast<double>(a.temperature_scale) * exact_log(step + 1.0);
    if (step > 0) parts_.backend->scale(q.slice(r, 1), static_cast<float>(factor));
  }
}

void Decoder::rope(int which, Rows x, int head_dim, const Batch& batch) {
  if (which < 0) return;
  const bool has_long = parts_.spec->ropes[static_cast<size_t>(which)].has_long();
  const std::span<const int32_t> angles =
      has_long ? std::span<const int32_t>(ws_.long_angles, static_cast<size_t>(x.rows)) : batch.positions;
  parts_.backend->rope(x, head_dim, angles, ws_.ropes[static_cast<size_t>(which)]);
}

// Keys and values go into the cache, then the queries look at all of it. `v` is empty where keys are latent.
void Decoder::attend(int layer, const Batch& batch, Rows q, Rows k, Rows v, Rows out) {
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  compute::AttentionParams params;
  params.n_heads = a.n_heads;
  params.scale = a.scale;
  params.window = a.window;
  params.chunk = a.chunk;
  params.sinks = layer_weights(layer).attention.sinks;
  params.soft_cap = a.soft_cap;
  if (a.indexer.n_heads > 0) params.allowed = ws_.chosen;
  fill_segments(layer, batch);
  for (size_t i = 0; a.compressor.rate > 0 && i < segments_.size(); ++i) {
    segments_[i].entries = parts_.cache->view(batch.segments[i].slot, 2 * parts_.spec->n_layers() + layer);
    segments_[i].rate = a.compressor.rate;
  }
  parts_.backend->kv_append(k, v, segments_);
  parts_.backend->attention(q, segments_, params, out);
}

void Decoder::fill_segments(int plane, const Batch& batch) {
  segments_.clear();  // capacity was reserved: no allocation
  for (const BatchSegment& segment : batch.segments)
    segments_.push_back(
        {parts_.cache->view(segment.slot, plane), segment.first_row, segment.n_rows, segment.first_position});
}

}  // namespace colibri::model
