// Stop 6 of a token's life: attention over everything before it.
#include "model/decoder.h"

namespace colibri::model {

// x += output(attention(norm(x)))
void Decoder::attend(int layer, const Batch& batch) {
  compute::Backend& backend = *parts_.backend;
  const ModelSpec& spec = *parts_.spec;
  const LayerWeights& w = parts_.weights->layers[static_cast<size_t>(layer)];
  const int64_t rows = batch.rows();
  const Rows x = ws_.x.slice(0, rows), normed = ws_.normed.slice(0, rows), branch = ws_.branch.slice(0, rows);
  const Rows q = ws_.q.slice(0, rows), k = ws_.k.slice(0, rows), v = ws_.v.slice(0, rows),
             attended = ws_.attended.slice(0, rows);

  backend.rms_norm(x, w.attention_norm, spec.norm_eps, normed);
  const compute::Product projections[] = {{&w.q, w.q_bias, q}, {&w.k, w.k_bias, k}, {&w.v, w.v_bias, v}};
  backend.multiply(normed, projections);
  norm_and_rope(w, batch, q, k, v);
  fill_attention_segments(layer, batch);
  backend.kv_append(k, v, segments_);
  backend.attention(q, segments_, {spec.attention.n_heads, spec.attention.scale}, attended);
  backend.matmul(attended, w.output, w.output_bias, branch);
  backend.add(x, branch);
}

void Decoder::norm_and_rope(const LayerWeights& w, const Batch& batch, Rows q, Rows k, Rows v) {
  compute::Backend& backend = *parts_.backend;
  const ModelSpec& spec = *parts_.spec;
  const AttentionSpec& attention = spec.attention;
  if (attention.qk_norm != QkNorm::kNone) {
    const bool per_head = attention.qk_norm == QkNorm::kPerHead;
    const Rows q_view = per_head ? q.reshaped(attention.head_dim) : q;
    const Rows k_view = per_head ? k.reshaped(attention.head_dim) : k;
    backend.rms_norm(q_view, w.q_norm, spec.norm_eps, q_view);
    backend.rms_norm(k_view, w.k_norm, spec.norm_eps, k_view);
  }
  if (attention.clip_qkv > 0)
    for (const Rows& rows : {q, k, v}) backend.clamp(rows, attention.clip_qkv);
  backend.rope(q, attention.head_dim, batch.positions, rope_);
  backend.rope(k, attention.head_dim, batch.positions, rope_);
}

void Decoder::fill_attention_segments(int layer, const Batch& batch) {
  segments_.clear();  // capacity was reserved: no allocation
  for (const BatchSegment& segment : batch.segments)
    segments_.push_back(
        {parts_.cache->view(segment.slot, layer), segment.first_row, segment.n_rows, segment.first_position});
}

}  // namespace colibri::model
