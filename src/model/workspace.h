// Workspace: the activations of one batch and the tables that every layer reads, in one arena sized before loading.
//
// Private to src/model. Widths are the largest that any layer needs; a block takes the columns it needs by slicing rows
// to its own width. Ownership: views of the decoder's arena.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/backend.h"
#include "kv/kv_cache.h"
#include "model/batch.h"
#include "model/spec.h"
#include "tensor/tensor.h"

namespace colibri::model {

struct DecoderLimits {
  int64_t max_rows = 1;        ///< rows of one batch
  int64_t max_logit_rows = 1;  ///< rows of one head() call
  int max_segments = 1;
  int64_t context = 1;  ///< positions
  /// Rows whose experts may compute in the order in which they arrive; 0 when all are resident.
  int64_t max_apart_rows = 0;
  int guesses_per_row = 0;      ///< experts of the next layer that may be read ahead, at most top_k; 0: none
  int64_t max_decode_rows = 1;  ///< rows of one batch in the lane kDecode, at most max_rows
};

/// Memory for rows of up to a width: a block asks for the width that it works with.
struct Buffer {
  float* data = nullptr;
  int64_t floats = 0;

  Rows rows(int64_t n, int64_t width) const {
    COLIBRI_DCHECK(n * width <= floats);
    return {data, n, width};
  }
};

/// What a pass carries from piece to piece. Each lane has its own.
struct Carried {
  Rows x;                   ///< residual stream [hidden]; of several, what a block reads
  Rows streams;             ///< several residual streams [streams * hidden]
  Rows late;                ///< experts' output that is added later [hidden]
  compute::KeySets chosen;  ///< by the indexer, for the layers that share it
  int32_t* long_angles;     ///< [rows]: rows of a RoPE table that has long factors
  Rows branch, mixed;       ///< what a block adds to x, and what experts beside a dense MLP do [hidden]
  int32_t* expert_ids;      ///< [rows, top_k]
  float* expert_weights;    ///< likewise
};

/// With what the running lane carries in front.
struct Workspace : Carried {
  Carried lanes[2];       ///< by Lane
  Rows normed_streams;    ///< [streams * hidden]
  Buffer stream_weights;  ///< of the block that is running
  Rows normed;            ///< what a block reads [hidden]
  Rows expert_input;      ///< likewise for experts with a norm of their own [hidden]
  Rows shared;            ///< the shared expert's output [hidden]
  Rows guess;             ///< input of a router that is asked early [hidden]
  Buffer q, k, v, gate, attended;
  Buffer q_rank, q_rope, latent, k_rope, q_latent, latent_out;  ///< latent attention
  Buffer index_q, index_k, index_weights;
  Buffer entries;                         ///< keys that stand for runs of positions
  int32_t* entry_positions;               ///< [max_rows]: of the first position of each
  Buffer decay, beta, down;               ///< delta rule, Mamba-2
  Buffer mlp_gate, mlp_up;                ///< dense or shared MLP
  Rows router_logits;                     ///< [experts]
  Rows shared_gate;                       ///< [1]
  int32_t* guessed_ids;                   ///< [max_apart_rows, top_k]
  int32_t* stored_ids;                    ///< [max_rows * top_k]: those of experts that have weights
  float* guessed_weights;                 ///< like guessed_ids
  Rows logits, logit_input;               ///< [max_logit_rows, vocab], [max_logit_rows, hidden]
  std::vector<compute::RopeTable> ropes;  ///< by ModelSpec::ropes
};

/// Bytes that lay_out() hands out.
int64_t workspace_bytes(const ModelSpec& spec, const DecoderLimits& limits);
/// Places everything in `memory` of that many bytes and fills the RoPE tables.
Workspace lay_out(const ModelSpec& spec, const DecoderLimits& limits, std::byte* memory);

/// What the caches of a model hold: keys and values by decoder layer, then the keys of indexers and then compressed
/// keys, also by decoder layer.
std::vector<kv::KvLayer> kv_layers(const ModelSpec& spec);
/// Floats of recurrent state by decoder layer.
std::vector<int64_t> state_floats(const ModelSpec& spec);
/// Of a compressor and its indexer's; 0 without.
int64_t compressor_state_floats(const AttentionSpec& a);

/// The largest problem that the spec poses to a backend.
compute::BackendLimits backend_limits(const ModelSpec& spec, const DecoderLimits& limits);

}  // namespace colibri::model
