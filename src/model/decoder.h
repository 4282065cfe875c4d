// Decoder: the forward pass. One loop for every family; what differs is data in ModelSpec.
//
// Thread-safety: the engine thread only. Ownership: borrows weights, store, cache and backend, which must outlive it;
// owns its workspace, sized once for `max_rows`. Allocates nothing in forward() and head().
#pragma once

#include <cstdint>
#include <vector>

#include "compute/backend.h"
#include "kv/kv_cache.h"
#include "model/batch.h"
#include "model/spec.h"
#include "model/weights.h"
#include "platform/memory.h"
#include "store/expert_store.h"

namespace colibri::model {

struct DecoderLimits {
  int64_t max_rows = 1;        ///< rows of one batch
  int64_t max_logit_rows = 1;  ///< rows of one head() call
  int max_segments = 1;
  int64_t context = 1;  ///< positions
  /// Rows whose experts may compute in the order in which they arrive; 0 when all are resident.
  int64_t max_apart_rows = 0;
  int guesses_per_row = 0;  ///< experts of the next layer that may be read ahead, at most top_k; 0: none
};

/// The activations of one batch, [max_rows, ...] each, and the tables that every layer reads.
struct Workspace {
  Rows x;                    ///< residual stream [hidden]
  Rows normed;               ///< its norm, the input of a block [hidden]
  Rows branch;               ///< what a block adds to x [hidden]
  Rows q, k, v, attended;    ///< [heads * head_dim]
  Rows gate, up;             ///< dense or shared MLP [width]
  Rows router_logits;        ///< [experts]
  Rows shared_gate;          ///< [1]
  int32_t* expert_ids;       ///< [max_rows, top_k]
  float* expert_weights;     ///< [max_rows, top_k]
  int32_t* guessed_ids;      ///< [max_apart_rows, top_k]
  float* guessed_weights;    ///< [max_apart_rows, top_k]
  Rows logits, logit_input;  ///< [max_logit_rows, vocab], [max_logit_rows, hidden]
  float *rope_cos, *rope_sin;
};

/// What the decoder borrows.
struct DecoderParts {
  const ModelSpec* spec = nullptr;
  const ModelWeights* weights = nullptr;
  store::ExpertStore* experts = nullptr;  ///< null for a dense model
  const kv::KvCache* cache = nullptr;
  compute::Backend* backend = nullptr;
};

/// The largest problem that the spec poses to a backend.
compute::BackendLimits backend_limits(const ModelSpec& spec, const DecoderLimits& limits);

class Decoder {
 public:
  /// Bytes of the workspace, RoPE tables included.
  static int64_t workspace_bytes(const ModelSpec& spec, const DecoderLimits& limits);
  static Result<Decoder> create(const DecoderParts& parts, const DecoderLimits& limits);

  /// Runs all layers. The result [rows, hidden] is after the final norm and valid until the next call. Keys and values
  /// of the rows are in the cache afterwards. `observer` may be null. kCancelled when the backend was told to stop.
  /// REQUIRES: rows <= max_rows, positions < context.
  Result<Rows> forward(const Batch& batch, RoutingObserver* observer);

  /// Logits of the given rows of the last forward(); valid until the next call. REQUIRES: rows.size() <=
  /// max_logit_rows.
  Logits head(Rows hidden, std::span<const int64_t> rows);

 private:
  void attend(int layer, const Batch& batch);
  Status check_abandoned() const;
  Status feed_forward(int layer, int64_t rows, RoutingObserver* observer);
  Status mix_experts(int layer, int64_t rows, RoutingObserver* observer);
  Status run_experts(store::ExpertLeases& leases, Rows normed, Rows branch);
  void guess_experts(int layer, int64_t rows);
  void shared_expert(const LayerWeights& weights, int64_t rows);
  void mlp(const ExpertWeights& weights, Rows x, Rows out);
  void norm_and_rope(const LayerWeights& weights, const Batch& batch, Rows q, Rows k, Rows v);
  void fill_attention_segments(int layer, const Batch& batch);

  DecoderParts parts_;
  DecoderLimits limits_;
  platform::Arena arena_;
  std::vector<int> moe_index_;  // decoder layer -> number among MoE layers
  std::vector<compute::AttentionSegment> segments_;
  compute::RopeTable rope_;

  Workspace ws_;
};

}  // namespace colibri::model
