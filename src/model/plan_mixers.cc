// Which tensors the mixers need, in each of the layouts in which files have them.
#include "model/weight_planner.h"

namespace colibri::model {

using store::MatrixSource;

Status WeightPlanner::attention(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t hidden = spec_.hidden_size;
  if (a.shared_key) return compressed_attention(a, w);
  COLIBRI_TRY(a.latent() ? latent_attention(a, w) : grouped_projections(a, w));
  COLIBRI_TRY(matrix(names_.output, hidden, a.output_width(), &w.output));
  COLIBRI_TRY(bias(a.output_bias, names_.output, hidden, &w.output_bias));
  if (a.output_gate != OutputGate::kNone && names_.q_gate == nullptr)
    COLIBRI_TRY(matrix(names_.gate_attention, a.output_gate == OutputGate::kPerHead ? a.n_heads : a.output_width(),
                       hidden, &w.gate));
  return a.sinks ? vector(names_.sinks, a.n_heads, &w.sinks) : Status{};
}

Status WeightPlanner::grouped_projections(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t hidden = spec_.hidden_size, q = a.query_width(), k = a.key_width(), v = a.value_width();
  const bool fused = has(names_.qkv);
  const int64_t rows = fused ? q + k + v : 0;
  const char *q_name = fused ? names_.qkv : names_.q, *k_name = fused ? names_.qkv : names_.k,
             *v_name = fused ? names_.qkv : names_.v;
  if (names_.q_gate != nullptr) {
    COLIBRI_TRY(query_and_gate(a, w));
  } else {
    COLIBRI_TRY(matrix(q_name, q, hidden, &w.q, {rows, 0}, a.n_heads));
  }
  COLIBRI_TRY(matrix(k_name, k, hidden, &w.k, {rows, fused ? q : 0}, a.n_kv_heads));
  if (!a.value_is_key) COLIBRI_TRY(matrix(v_name, v, hidden, &w.v, {rows, fused ? q + k : 0}));

  VectorJob job;
  job.n = rows;
  const auto heads = [this](int n) { return description_.interleaved_qk ? n : 0; };
  job.interleaved_heads = heads(a.n_heads);
  COLIBRI_TRY(bias(a.qkv_bias, q_name, q, &w.q_bias, job));
  job.interleaved_heads = heads(a.n_kv_heads);
  job.first = fused ? q : 0;
  COLIBRI_TRY(bias(a.qkv_bias, k_name, k, &w.k_bias, job));
  job.interleaved_heads = 0;
  job.first = fused ? q + k : 0;
  COLIBRI_TRY(bias(a.qkv_bias, v_name, v, &w.v_bias, job));

  if (a.qk_norm != QkNorm::kPerHead && a.qk_norm != QkNorm::kFullRow) return {};
  const bool per_head = a.qk_norm == QkNorm::kPerHead;
  COLIBRI_TRY(rms_weight(names_.q_norm, per_head ? a.head_dim : q, &w.q_norm));
  return rms_weight(names_.k_norm, per_head ? a.head_dim : k, &w.k_norm);
}

// Every head has its query, then its gate.
Status WeightPlanner::query_and_gate(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t n = a.query_width(), head = a.head_dim;
  COLIBRI_TRY(matrix(names_.q_gate, n, spec_.hidden_size, &w.q, {2 * n, 0, head, 2 * head}));
  return matrix(names_.q_gate, n, spec_.hidden_size, &w.gate, {2 * n, head, head, 2 * head});
}

Status WeightPlanner::latent_attention(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t hidden = spec_.hidden_size, rows = a.latent_dim + a.rope_dim();
  COLIBRI_TRY(latent_queries(a, w));
  COLIBRI_TRY(matrix(names_.kv_down, a.latent_dim, hidden, &w.latent, {rows, 0}));
  COLIBRI_TRY(matrix(names_.kv_down, a.rope_dim(), hidden, &w.k_rope, {rows, a.latent_dim}));
  COLIBRI_TRY(vector(names_.kv_down_norm, a.latent_dim, &w.latent_norm));
  COLIBRI_TRY(latent_heads(a, w));
  return a.indexer.n_heads > 0 && !a.shares_indexer ? indexer(a, w.indexer) : Status{};
}

Status WeightPlanner::latent_queries(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t heads = a.n_heads, head = a.head_dim, nope = a.nope_dim, rope = a.rope_dim();
  const int64_t inputs = a.query_rank > 0 ? a.query_rank : spec_.hidden_size;
  const char* name = a.query_rank > 0 ? names_.q_up : names_.q;
  if (a.query_rank > 0) {
    COLIBRI_TRY(matrix(names_.q_down, a.query_rank, spec_.hidden_size, &w.q_down));
    COLIBRI_TRY(vector(names_.q_down_norm, a.query_rank, &w.q_down_norm));
  }
  COLIBRI_TRY(matrix(name, heads * nope, inputs, &w.q, {heads * head, 0, nope, head}));
  return matrix(name, heads * rope, inputs, &w.q_rope, {heads * head, nope, rope, head});
}

// The absorbed form: queries go into the latent space through the transposed keys' half of every head.
Status WeightPlanner::latent_heads(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t heads = a.n_heads, nope = a.nope_dim, value = a.value_dim, latent = a.latent_dim;
  w.key_up.resize(static_cast<size_t>(heads));
  w.value_up.resize(static_cast<size_t>(heads));
  const bool split = has(names_.key_up);
  for (int64_t h = 0; h < heads; ++h) {
    PackedMatrix *key = &w.key_up[static_cast<size_t>(h)], *up = &w.value_up[static_cast<size_t>(h)];
    if (split) {
      COLIBRI_TRY(matrix(names_.key_up, latent, nope, key, {heads * latent, h * latent}));
      COLIBRI_TRY(matrix(names_.value_up, value, latent, up, {heads * value, h * value}));
      continue;
    }
    const int64_t rows = heads * (nope + value), first = h * (nope + value);
    COLIBRI_ASSIGN(const MatrixSource all, source(names_.kv_up, Shape{rows, latent}));
    add(store::select_transposed(all, 0, latent, first, nope), key);
    COLIBRI_TRY(matrix(names_.kv_up, value, latent, up, {rows, first + nope}));
  }
  return {};
}

Status WeightPlanner::indexer(const AttentionSpec& a, IndexerWeights& w) {
  const IndexerSpec& i = a.indexer;
  COLIBRI_TRY(matrix(names_.index_q, int64_t{i.n_heads} * i.head_dim, a.query_rank, &w.q));
  COLIBRI_TRY(matrix(names_.index_k, i.head_dim, spec_.hidden_size, &w.k));
  COLIBRI_TRY(matrix(names_.index_weights, i.n_heads, spec_.hidden_size, &w.weights));
  COLIBRI_TRY(vector(names_.index_k_norm, i.head_dim, &w.k_norm.weight));
  return bias(true, names_.index_k_norm, i.head_dim, &w.k_norm.bias);
}

Status WeightPlanner::delta(DeltaWeights& w) {
  const DeltaSpec& d = spec_.delta;
  const int64_t hidden = spec_.hidden_size, channels = d.decay == DeltaDecay::kPerHead ? 1 : d.key_dim;
  COLIBRI_TRY(delta_projections(d, w));
  COLIBRI_TRY(delta_convolutions(d, w));
  COLIBRI_TRY(log_decay(names_.delta_log_decay, names_.delta_decay, d.n_value_heads, &w.rate));
  COLIBRI_TRY(vector(names_.delta_step_bias, d.n_value_heads * channels, &w.step_bias));
  COLIBRI_TRY(vector(names_.delta_norm, d.value_dim, &w.norm));
  return matrix(names_.delta_output, hidden, d.value_width(), &w.output);
}

Status WeightPlanner::delta_projections(const DeltaSpec& d, DeltaWeights& w) {
  const int64_t hidden = spec_.hidden_size, kd = d.key_dim, key = d.key_width(), value = d.value_width();
  const int64_t each = d.n_value_heads / d.n_key_heads, vd = each * d.value_dim;  // of a key head
  const int64_t decay = d.decay == DeltaDecay::kPerHead ? d.n_value_heads : int64_t{d.n_value_heads} * kd;
  if (has(names_.delta_qkvz)) {
    const int64_t rows = 2 * (key + value), group = 2 * (kd + vd);
    COLIBRI_TRY(matrix(names_.delta_qkvz, key, hidden, &w.q, {rows, 0, kd, group}));
    COLIBRI_TRY(matrix(names_.delta_qkvz, key, hidden, &w.k, {rows, kd, kd, group}));
    COLIBRI_TRY(matrix(names_.delta_qkvz, value, hidden, &w.v, {rows, 2 * kd, vd, group}));
    COLIBRI_TRY(matrix(names_.delta_qkvz, value, hidden, &w.z, {rows, 2 * kd + vd, vd, group}));
  } else {
    const bool fused = has(names_.delta_qkv);
    const int64_t rows = fused ? 2 * key + value : 0;
    COLIBRI_TRY(matrix(fused ? names_.delta_qkv : names_.delta_q, key, hidden, &w.q, {rows, 0}));
    COLIBRI_TRY(matrix(fused ? names_.delta_qkv : names_.delta_k, key, hidden, &w.k, {rows, fused ? key : 0}));
    COLIBRI_TRY(matrix(fused ? names_.delta_qkv : names_.delta_v, value, hidden, &w.v, {rows, fused ? 2 * key : 0}));
    if (d.gate_rank > 0) COLIBRI_TRY(matrix(names_.delta_z_down, d.gate_rank, hidden, &w.z_down));
    COLIBRI_TRY(matrix(names_.delta_z, value, d.gate_rank > 0 ? d.gate_rank : hidden, &w.z));
  }
  if (has(names_.delta_ba)) {
    const int64_t rows = 2 * d.n_value_heads;
    COLIBRI_TRY(matrix(names_.delta_ba, d.n_value_heads, hidden, &w.beta, {rows, 0, each, 2 * each}));
    return matrix(names_.delta_ba, d.n_value_heads, hidden, &w.decay, {rows, each, each, 2 * each});
  }
  COLIBRI_TRY(matrix(names_.delta_b, d.n_value_heads, hidden, &w.beta));
  if (d.gate_rank > 0) COLIBRI_TRY(matrix(names_.delta_a_down, d.gate_rank, hidden, &w.decay_down));
  return matrix(names_.delta_a, decay, d.gate_rank > 0 ? d.gate_rank : hidden, &w.decay);
}

Status WeightPlanner::delta_convolutions(const DeltaSpec& d, DeltaWeights& w) {
  const int64_t key = d.key_width(), value = d.value_width();
  const bool fused = has(names_.delta_qkv_conv);
  const int64_t all = fused ? 2 * key + value : 0;
  const char *q = fused ? names_.delta_qkv_conv : names_.delta_q_conv,
             *k = fused ? names_.delta_qkv_conv : names_.delta_k_conv,
             *v = fused ? names_.delta_qkv_conv : names_.delta_v_conv;
  COLIBRI_TRY(convolution(q, key, d.conv_kernel, &w.q_conv, 0, all));
  COLIBRI_TRY(convolution(k, key, d.conv_kernel, &w.k_conv, fused ? key : 0, all));
  return convolution(v, value, d.conv_kernel, &w.v_conv, fused ? 2 * key : 0, all);
}

// GGUF files have -exp(A_log) already.
Status WeightPlanner::log_decay(const char* log_pattern, const char* pattern, int64_t n, const float** target) {
  if (!has(log_pattern)) return vector(pattern, n, target);
  VectorJob job;
  job.change = VectorJob::Change::kMinusExp;
  return vector(log_pattern, n, target, job);
}

// Rows of the input projection: z, then x, B and C together, then dt.
Status WeightPlanner::mamba(MambaWeights& w) {
  const MambaSpec& m = spec_.mamba;
  const int64_t hidden = spec_.hidden_size, inner = m.inner(), conv = m.conv_width(), rows = inner + conv + m.n_heads;
  COLIBRI_TRY(matrix(names_.mamba_in, inner, hidden, &w.z, {rows, 0}));
  COLIBRI_TRY(matrix(names_.mamba_in, conv, hidden, &w.xbc, {rows, inner}));
  COLIBRI_TRY(matrix(names_.mamba_in, m.n_heads, hidden, &w.dt, {rows, inner + conv}));
  COLIBRI_TRY(convolution(names_.mamba_conv, conv, m.conv_kernel, &w.conv));
  COLIBRI_TRY(bias(m.conv_bias, names_.mamba_conv, conv, &w.conv_bias));
  COLIBRI_TRY(log_decay(names_.mamba_log_decay, names_.mamba_decay, m.n_heads, &w.rate));
  COLIBRI_TRY(vector(names_.mamba_step_bias, m.n_heads, &w.step_bias));
  COLIBRI_TRY(vector(names_.mamba_skip, m.n_heads, &w.skip));
  COLIBRI_TRY(vector(names_.mamba_norm, inner, &w.norm));
  return matrix(names_.mamba_out, hidden, inner, &w.output);
}

Status WeightPlanner::short_conv(ShortConvWeights& w) {
  const int64_t n = spec_.hidden_size;
  COLIBRI_TRY(matrix(names_.conv_in, n, n, &w.before, {3 * n, 0}));
  COLIBRI_TRY(matrix(names_.conv_in, n, n, &w.after, {3 * n, n}));
  COLIBRI_TRY(matrix(names_.conv_in, n, n, &w.x, {3 * n, 2 * n}));
  COLIBRI_TRY(convolution(names_.conv, n, spec_.conv.kernel, &w.conv));
  COLIBRI_TRY(bias(spec_.conv.bias, names_.conv, n, &w.conv_bias));
  return matrix(names_.conv_out, n, n, &w.output);
}

}  // namespace colibri::model
