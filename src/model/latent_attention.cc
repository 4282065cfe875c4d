// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1), always in its absorbed form: queries are
// brought into the latent space, so that all heads share one key, [latent | rope], whose first part is also the value.
// With an indexer (DeepSeek-V3.2), only the keys that it chose take part.
#include <cmath>

#include "model/decoder.h"

namespace colibri::model {

void Decoder::latent_attention(int layer, const Batch& batch, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const AttentionWeights& w = layer_weights(layer).attention;
  const Rows attended = ws_.attended.rows(x.rows, a.output_width()),
             latent = ws_.latent_out.rows(x.rows, int64_t{a.n_heads} * a.latent_dim);

  const Rows q = latent_queries(a, w, batch, x);
  const Rows k = latent_keys(a, w, batch, x);
  if (a.indexer.n_heads > 0 && !a.shares_indexer) choose_keys(layer, batch, x);
  attend(layer, batch, q, k, {}, latent);
  backend.multiply_groups(latent, w.value_up, attended);
  if (w.gate.n > 0) {
    const Rows gate = ws_.gate.rows(x.rows, w.gate.n);
    backend.matmul(x, w.gate, nullptr, gate);
    backend.scale_by_sigmoid(attended, gate);
  }
  backend.matmul(attended, w.output, w.output_bias, out);
}

// Per head [latent | rope]. Leaves the normed query rank in ws_.q_rank, where there is one, for the indexer.
Rows Decoder::latent_queries(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const int64_t heads = a.n_heads;
  const Rows nope = ws_.q.rows(x.rows, heads * a.nope_dim), rope_part = ws_.q_rope.rows(x.rows, heads * a.rope_dim()),
             latent = ws_.latent_out.rows(x.rows, heads * a.latent_dim),
             query = ws_.q_latent.rows(x.rows, heads * (a.latent_dim + a.rope_dim()));
  Rows input = x;
  if (a.query_rank > 0) {
    input = ws_.q_rank.rows(x.rows, a.query_rank);
    backend.matmul(x, w.q_down, nullptr, input);
    backend.rms_norm(input, w.q_down_norm, a.latent_norm_eps, input);
  }
  const compute::Product both[] = {{&w.q, nullptr, nope}, {&w.q_rope, nullptr, rope_part}};
  backend.multiply(input, both);
  rope(a.rope, rope_part, a.rope_dim(), batch);
  backend.multiply_groups(nope, w.key_up, latent);
  backend.join_heads(latent, rope_part, a.n_heads, query);
  return query;
}

Rows Decoder::latent_keys(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const Rows latent = ws_.latent.rows(x.rows, a.latent_dim), rope_part = ws_.k_rope.rows(x.rows, a.rope_dim()),
             key = ws_.k.rows(x.rows, a.latent_dim + a.rope_dim());
  const compute::Product both[] = {{&w.latent, nullptr, latent}, {&w.k_rope, nullptr, rope_part}};
  backend.multiply(x, both);
  backend.rms_norm(latent, w.latent_norm, a.latent_norm_eps, latent);
  if (a.latent_scale != 1.0f) backend.scale(latent, a.latent_scale);
  rope(a.rope, rope_part, a.rope_dim(), batch);
  backend.join_heads(latent, rope_part, 1, key);
  return key;
}

// score = sum over the indexer's heads of weight * heads^-0.5 * relu(q . k * dim^-0.5)
void Decoder::choose_keys(int layer, const Batch& batch, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const AttentionSpec& a = parts_.spec->attention_of(layer_spec(layer));
  const IndexerSpec& i = a.indexer;
  const IndexerWeights& w = layer_weights(layer).attention.indexer;
  const Rows q = ws_.index_q.rows(x.rows, int64_t{i.n_heads} * i.head_dim), k = ws_.index_k.rows(x.rows, i.head_dim),
             weights = ws_.index_weights.rows(x.rows, i.n_heads);
  backend.matmul(ws_.q_rank.rows(x.rows, a.query_rank), w.q, nullptr, q);
  const compute::Product both[] = {{&w.k, nullptr, k}, {&w.weights, nullptr, weights}};
  backend.multiply(x, both);
  backend.layer_norm(k, w.k_norm.weight, w.k_norm.bias, 1e-6f, k);
  compute::RopeTable table = ws_.ropes[static_cast<size_t>(a.rope)];
  table.interleaved = i.interleaved;
  backend.rope(q, i.head_dim, batch.positions, table);
  backend.rope(k, i.head_dim, batch.positions, table);
  backend.scale(weights, static_cast<float>(1.0 / std::sqrt(static_cast<double>(i.n_heads) * i.head_dim)));
  fill_segments(parts_.spec->n_layers() + layer, batch);
  backend.kv_append(k, {}, segments_);
  backend.select_keys(q, weights, segments_, i.top_k, ws_.chosen);
}

}  // namespace colibri::model
