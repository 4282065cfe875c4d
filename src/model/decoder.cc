#include "model/decoder.h"

#include <algorithm>
#include <cstring>

#include "model/rope.h"

namespace colibri::model {

Result<Rows> Decoder::forward(const Batch& batch, RoutingObserver* observer) {
  const int64_t rows = batch.rows();
  COLIBRI_DCHECK(rows <= limits_.max_rows);
  const Rows x = ws_.x.slice(0, rows);
  parts_.backend->embed(parts_.weights->embed, batch.tokens, x);
  for (int layer = 0; layer < parts_.spec->n_layers(); ++layer) {
    attend(layer, batch);
    COLIBRI_TRY(feed_forward(layer, rows, observer));
    COLIBRI_TRY(check_abandoned());
  }
  const Rows normed = ws_.normed.slice(0, rows);
  parts_.backend->rms_norm(x, parts_.weights->final_norm, parts_.spec->norm_eps, normed);
  return normed;
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
  const Logits logits = ws_.logits.slice(0, n);
  parts_.backend->matmul(input, parts_.weights->head, nullptr, logits);
  return logits;
}

namespace {

int widest_mlp(const ModelSpec& spec) {
  int width = spec.moe.shared_width;
  for (const LayerSpec& layer : spec.layers) width = std::max(width, layer.dense_width);
  return width;
}

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
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

Workspace carve(const ModelSpec& spec, const DecoderLimits& limits, Carver& carver) {
  const int64_t n = limits.max_rows;
  const int64_t hidden = spec.hidden_size;
  const int64_t table = rope_table_floats(spec.rope, limits.context);
  Workspace w;
  w.x = carver.rows(n, hidden);
  w.normed = carver.rows(n, hidden);
  w.branch = carver.rows(n, hidden);
  w.q = carver.rows(n, spec.query_width());
  w.k = carver.rows(n, spec.kv_width());
  w.v = carver.rows(n, spec.kv_width());
  w.attended = carver.rows(n, spec.query_width());
  w.gate = carver.rows(n, widest_mlp(spec));
  w.up = carver.rows(n, widest_mlp(spec));
  w.router_logits = carver.rows(n, spec.moe.router.n_experts);
  w.shared_gate = carver.rows(n, 1);
  w.expert_ids = carver.take<int32_t>(n * spec.moe.router.top_k);
  w.expert_weights = carver.take<float>(n * spec.moe.router.top_k);
  w.guessed_ids = carver.take<int32_t>(limits.max_apart_rows * spec.moe.router.top_k);
  w.guessed_weights = carver.take<float>(limits.max_apart_rows * spec.moe.router.top_k);
  w.logits = carver.rows(limits.max_logit_rows, spec.vocab_size);
  w.logit_input = carver.rows(limits.max_logit_rows, hidden);
  w.rope_cos = carver.take<float>(table);
  w.rope_sin = carver.take<float>(table);
  return w;
}

}  // namespace

compute::BackendLimits backend_limits(const ModelSpec& spec, const DecoderLimits& limits) {
  compute::BackendLimits b;
  b.max_rows = std::max(limits.max_rows, limits.max_logit_rows);
  b.max_inputs = std::max({spec.hidden_size, spec.query_width(), widest_mlp(spec), spec.moe.expert_width});
  b.max_expert_width = spec.moe.expert_width;
  b.max_expert_inputs = spec.hidden_size;
  b.n_experts = spec.moe.router.n_experts;
  b.top_k = spec.moe.router.top_k;
  b.key_dim = b.value_dim = spec.attention.head_dim;
  b.n_heads = spec.attention.n_heads;
  b.n_kv_heads = spec.attention.n_kv_heads;
  b.max_segments = limits.max_segments;
  b.max_apart_rows = limits.max_apart_rows;
  return b;
}

int64_t Decoder::workspace_bytes(const ModelSpec& spec, const DecoderLimits& limits) {
  Carver counter(nullptr);
  carve(spec, limits, counter);
  return counter.used();
}

Result<Decoder> Decoder::create(const DecoderParts& parts, const DecoderLimits& limits) {
  Decoder decoder;
  decoder.parts_ = parts;
  decoder.limits_ = limits;
  COLIBRI_ASSIGN(decoder.arena_, platform::Arena::allocate(workspace_bytes(*parts.spec, limits)));
  const ModelSpec& spec = *parts.spec;
  Carver carver(decoder.arena_.data());
  decoder.ws_ = carve(spec, limits, carver);
  fill_rope_tables(spec.rope, limits.context, decoder.ws_.rope_cos, decoder.ws_.rope_sin);
  decoder.rope_ = {false, spec.rope.rotary_dim, decoder.ws_.rope_cos, decoder.ws_.rope_sin};
  decoder.segments_.reserve(static_cast<size_t>(limits.max_segments));
  int moe = 0;
  for (const LayerSpec& layer : spec.layers) decoder.moe_index_.push_back(layer.moe ? moe++ : -1);
  return decoder;
}

}  // namespace colibri::model
