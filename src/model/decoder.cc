#include "model/decoder.h"

#include <algorithm>
#include <cstring>

namespace colibri::model {

Result<Rows> Decoder::forward(Lane lane, const Batch& batch, RoutingObserver* observer) {
  begin(lane, batch);
  for (bool done = false; !done;) {
    COLIBRI_ASSIGN(done, next_piece(lane, kAllExperts, observer));
  }
  return end(lane);
}

void Decoder::begin(Lane lane, const Batch& batch) {
  use(lane);
  COLIBRI_DCHECK(batch.rows() <= ws_.x.rows);
  pass(lane) = {batch};
  embed(batch);
}

Piece Decoder::upcoming(Lane lane) const {
  const Pass& p = passes_[static_cast<size_t>(lane)];
  const LayerSpec& spec = layer_spec(p.layer);
  if (!p.mixed && spec.mixer != Mixer::kNone) return Piece::kMixer;
  return spec.moe ? Piece::kExperts : Piece::kDense;
}

Result<bool> Decoder::next_piece(Lane lane, int32_t max_experts, RoutingObserver* observer) {
  const Piece piece = upcoming(lane);
  use(lane);
  Pass& p = pass(lane);
  bool layer_done = !layer_spec(p.layer).has_ffn();
  if (piece == Piece::kMixer) {
    mix(p.layer, p.batch);
    p.mixed = true;
  } else if (!layer_done) {
    COLIBRI_ASSIGN(layer_done, feed_forward(p, max_experts, observer));
  }
  COLIBRI_TRY(check_abandoned());
  if (!layer_done) return false;
  p.mixed = false;
  p.first_expert = 0;
  return ++p.layer == parts_.spec->n_layers();
}

Rows Decoder::end(Lane lane) {
  use(lane);
  const int64_t rows = pass(lane).batch.rows();
  if (parts_.spec->streams.n > 0) read_streams(parts_.weights->final_streams, rows);
  const Rows normed = ws_.normed.slice(0, rows);
  norm(ws_.x.slice(0, rows), parts_.weights->final_norm, normed);
  return normed;
}

void Decoder::embed(const Batch& batch) {
  const Rows x = ws_.x.slice(0, batch.rows());
  parts_.backend->embed(parts_.weights->embed, batch.tokens, x);
  if (parts_.spec->embedding_scale != 1.0f) parts_.backend->scale(x, parts_.spec->embedding_scale);
  if (parts_.spec->streams.n > 0) begin_streams(x);
  if (ws_.long_angles == nullptr) return;
  for (const BatchSegment& segment : batch.segments)
    for (int64_t r = segment.first_row; r < segment.first_row + segment.n_rows; ++r)
      ws_.long_angles[r] =
          batch.positions[static_cast<size_t>(r)] + static_cast<int32_t>(segment.long_prompt ? limits_.context : 0);
}

// x += mixer(norm(x))
void Decoder::mix(int layer, const Batch& batch) {
  const LayerSpec& spec = layer_spec(layer);
  const LayerWeights& w = layer_weights(layer);
  const Rows input = block_input(w.mixer_streams, w.mixer_norm, batch.rows());
  const Rows branch = ws_.branch.slice(0, batch.rows());
  switch (spec.mixer) {
    case Mixer::kAttention:
      if (parts_.spec->attention_of(spec).shared_key)
        compressed_attention(layer, batch, input, branch);
      else if (parts_.spec->attention_of(spec).latent())
        latent_attention(layer, batch, input, branch);
      else
        attention(layer, batch, input, branch);
      break;
    case Mixer::kDelta:
      delta_rule(layer, batch, input, branch);
      break;
    case Mixer::kMamba:
      mamba(layer, batch, input, branch);
      break;
    case Mixer::kShortConv:
      short_conv(layer, batch, input, branch);
      break;
    case Mixer::kNone:
      break;
  }
  add_to_residual(w.mixer_post_norm, batch.rows());
}

Rows Decoder::block_input(const StreamWeights& streams, const Norm& pre_norm, int64_t rows) {
  if (parts_.spec->streams.n > 0) read_streams(streams, rows);
  const Rows x = ws_.x.slice(0, rows), normed = ws_.normed.slice(0, rows);
  if (pre_norm.weight == nullptr) return x;
  norm(x, pre_norm, normed);
  return normed;
}

void Decoder::add_to_residual(const Norm& post_norm, int64_t rows) {
  const Rows branch = ws_.branch.slice(0, rows);
  if (post_norm.weight != nullptr) norm(branch, post_norm, branch);
  if (parts_.spec->streams.n > 0) return add_to_streams(branch);
  parts_.backend->add_scaled(ws_.x.slice(0, rows), parts_.spec->residual_scale, branch);
}

void Decoder::norm(Rows x, const Norm& norm, Rows y) {
  if (parts_.spec->layer_norm)
    parts_.backend->layer_norm(x, norm.weight, norm.bias, parts_.spec->norm_eps, y);
  else
    parts_.backend->rms_norm(x, norm.weight, parts_.spec->norm_eps, y);
}

Status Decoder::check_abandoned() const {
  return parts_.backend->abandoned() ? Status(Error{ErrorCode::kCancelled, "cancelled"}) : Status();
}

Logits Decoder::head(Rows hidden, std::span<const int64_t> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  COLIBRI_DCHECK(n <= limits_.max_logit_rows);
  const Rows input = ws_.logit_input.slice(0, n);
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(input.row(i), hidden.row(rows[static_cast<size_t>(i)]),
                static_cast<size_t>(hidden.width) * sizeof(float));
  const ModelSpec& spec = *parts_.spec;
  const Logits logits = ws_.logits.slice(0, n);
  parts_.backend->matmul(input, parts_.weights->head, parts_.weights->head_bias, logits);
  if (spec.logit_scale != 1.0f) parts_.backend->scale(logits, spec.logit_scale);
  if (spec.logit_cap > 0) parts_.backend->soft_cap(logits, spec.logit_cap);
  return logits;
}

Result<Decoder> Decoder::create(const DecoderParts& parts, const DecoderLimits& limits) {
  Decoder decoder;
  decoder.parts_ = parts;
  decoder.limits_ = limits;
  const ModelSpec& spec = *parts.spec;
  COLIBRI_ASSIGN(decoder.arena_, platform::Arena::allocate(workspace_bytes(spec, limits)));
  decoder.ws_ = lay_out(spec, limits, decoder.arena_.data());
  decoder.segments_.reserve(static_cast<size_t>(limits.max_segments));
  decoder.states_.reserve(static_cast<size_t>(limits.max_segments));
  decoder.compressed_.reserve(static_cast<size_t>(limits.max_segments));
  int moe = 0;
  for (size_t l = 0; l < spec.layers.size(); ++l) {
    decoder.moe_index_.push_back(spec.layers[l].moe ? moe++ : -1);
    compute::RouterParams router = spec.moe.router;
    router.bias = parts.weights->layers[l].moe.choice_bias;
    router.expert_scale = parts.weights->layers[l].moe.expert_scale;
    decoder.routers_.push_back(router);
  }
  return decoder;
}

}  // namespace colibri::model
