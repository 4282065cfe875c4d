// Decoder: the forward pass. One loop for every family; what differs is data in ModelSpec.
//
// Each kind of block stands in a file of its own: attention.cc, latent_attention.cc, compressed_attention.cc,
// recurrent.cc, feed_forward.cc; streams.cc is what stands between them where there are several residual streams. A
// mixer reads x [rows, hidden], already normed, and writes what is added to the residual stream. Thread-safety: the
// engine thread only. Ownership: borrows weights, stores, caches and backend, which must outlive it; owns its
// workspace, sized once for `max_rows`. Allocates nothing between create() and its end.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compute/backend.h"
#include "kv/kv_cache.h"
#include "kv/state_cache.h"
#include "model/batch.h"
#include "model/spec.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "platform/memory.h"
#include "store/expert_store.h"

namespace colibri::model {

/// What the decoder borrows.
struct DecoderParts {
  const ModelSpec* spec = nullptr;
  const ModelWeights* weights = nullptr;
  store::ExpertStore* experts = nullptr;   ///< null for a dense model
  const kv::KvCache* cache = nullptr;      ///< of kv_layers(spec)
  const kv::StateCache* states = nullptr;  ///< of state_floats(spec)
  compute::Backend* backend = nullptr;
};

class Decoder {
 public:
  static constexpr int32_t kAllExperts = std::numeric_limits<int32_t>::max();

  static Result<Decoder> create(const DecoderParts& parts, const DecoderLimits& limits);

  /// Begins a pass in the lane; one that was under way there is forgotten. What `batch` points to must stay until the
  /// pass is over. REQUIRES: rows <= max_rows (kDecode: max_decode_rows), positions < context.
  void begin(Lane lane, const Batch& batch);
  /// What next_piece() would run.
  Piece upcoming(Lane lane) const;
  /// Runs the next piece of the lane's pass: true when that was the last one. A feed-forward computes up to
  /// `max_experts` experts: all, REQUIRES, where they are streamed, or what was read for it would be lost in between.
  /// The other lane may run between pieces, with other sequences; pieces change no result. `observer` may be null.
  /// kCancelled when the backend was told to stop.
  Result<bool> next_piece(Lane lane, int32_t max_experts, RoutingObserver* observer);
  /// The pass after its last piece: [rows, hidden] behind the final norm, valid until anything else is called. Keys,
  /// values and state of the rows are in the caches.
  Rows end(Lane lane);
  /// All of that in one.
  Result<Rows> forward(Lane lane, const Batch& batch, RoutingObserver* observer);

  /// Logits of the given rows of what end() gave; valid until the next call. REQUIRES: rows.size() <= max_logit_rows.
  Logits head(Rows hidden, std::span<const int64_t> rows);

 private:
  struct Pass {
    Batch batch;
    int layer = 0;             ///< the one that is running
    bool mixed = false;        ///< its mixer has run
    int32_t first_expert = 0;  ///< of what is left of its feed-forward
  };

  // The loop and what blocks share (decoder.cc).
  void use(Lane lane) { static_cast<Carried&>(ws_) = ws_.lanes[static_cast<size_t>(lane)]; }
  Pass& pass(Lane lane) { return passes_[static_cast<size_t>(lane)]; }
  void embed(const Batch& batch);
  void mix(int layer, const Batch& batch);
  Rows block_input(const StreamWeights& streams, const Norm& norm, int64_t rows);
  void add_to_residual(const Norm& post_norm, int64_t rows);
  void norm(Rows x, const Norm& norm, Rows y);
  Status check_abandoned() const;
  void begin_streams(Rows x);
  void read_streams(const StreamWeights& w, int64_t rows);
  void add_to_streams(Rows y);

  // Mixers: x -> out.
  void attention(int layer, const Batch& batch, Rows x, Rows out);
  void norm_and_rope(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows q, Rows k);
  void temper(const AttentionSpec& a, const Batch& batch, Rows q);
  void rope(int which, Rows x, int head_dim, const Batch& batch);
  void attend(int layer, const Batch& batch, Rows q, Rows k, Rows v, Rows out);
  void fill_segments(int plane, const Batch& batch);
  void latent_attention(int layer, const Batch& batch, Rows x, Rows out);
  Rows latent_queries(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x);
  Rows latent_keys(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x);
  void choose_keys(int layer, const Batch& batch, Rows x);
  void compressed_attention(int layer, const Batch& batch, Rows x, Rows out);
  Rows ranked_queries(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x);
  Rows shared_keys(const AttentionSpec& a, const AttentionWeights& w, const Batch& batch, Rows x);
  void rope_tail(const AttentionSpec& a, Rows x, int head_dim, std::span<const int32_t> positions,
                 bool inverse = false);
  void compress(int layer, const Batch& batch, Rows x);
  void compress_index(int layer, const Batch& batch, Rows x);
  void add_entries(int layer, const Batch& batch, const CompressorWeights& w, const compute::CompressParams& params,
                   int64_t state, int plane, Rows x);
  int64_t place_entries(int layer, const Batch& batch, int64_t rate, int64_t state, int plane);
  void choose_entries(int layer, const Batch& batch, Rows x);
  void delta_rule(int layer, const Batch& batch, Rows x, Rows out);
  void delta_inputs(const DeltaSpec& d, const DeltaWeights& w, Rows x);
  void mamba(int layer, const Batch& batch, Rows x, Rows out);
  void short_conv(int layer, const Batch& batch, Rows x, Rows out);
  std::span<const compute::RecurrentSegment> states(int layer, const Batch& batch, int64_t offset);

  // Feed-forward (feed_forward.cc).
  Result<bool> feed_forward(Pass& pass, int32_t max_experts, RoutingObserver* observer);
  compute::ExpertRange next_experts(const Pass& pass, int32_t max_experts) const;
  Status experts(int layer, const Batch& batch, compute::ExpertRange range, Rows x, Rows out,
                 RoutingObserver* observer);
  void route(int layer, const Batch& batch, Rows x);
  std::span<const int32_t> stored_ids(int64_t rows);
  Status run_experts(store::ExpertLeases& leases, compute::ExpertRange range, Rows x, Rows out);
  void guess_experts(int layer, int64_t rows);
  void shared_expert(const MoeWeights& w, Rows x, Rows out);
  void mlp(const ExpertWeights& weights, Rows x, Rows out);

  const LayerSpec& layer_spec(int layer) const { return parts_.spec->layers[static_cast<size_t>(layer)]; }
  const LayerWeights& layer_weights(int layer) const { return parts_.weights->layers[static_cast<size_t>(layer)]; }
  const compute::RouterParams& router(int layer) const { return routers_[static_cast<size_t>(layer)]; }
  int moe_index(int layer) const { return moe_index_[static_cast<size_t>(layer)]; }

  DecoderParts parts_;
  DecoderLimits limits_;
  platform::Arena arena_;
  std::vector<int> moe_index_;                  // decoder layer -> number among MoE layers
  std::vector<compute::RouterParams> routers_;  // by decoder layer, with its biases
  std::vector<compute::AttentionSegment> segments_;
  std::vector<compute::RecurrentSegment> states_;
  std::vector<compute::CompressSegment> compressed_;
  Workspace ws_;
  Pass passes_[2];  // by Lane
};

}  // namespace colibri::model
