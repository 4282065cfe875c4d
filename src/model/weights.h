// ModelWeights: the canonical weights that the decoder reads, and the plan by which they are brought in.
//
// Loading has three steps. make() finds every tensor that the spec needs, checks type and shape, refuses what would be
// left over, and adds up the bytes: nothing has been read and nothing allocated when it fails. place_dense() gives
// every weight its place in memory of exactly that size, and store::load_matrices() fills it. After that, nothing knows
// which file format the model came from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/catalog.h"
#include "model/families/family.h"
#include "model/spec.h"
#include "platform/memory.h"
#include "store/expert_store.h"

namespace colibri::model {

struct Norm {
  const float* weight = nullptr;
  const float* bias = nullptr;  ///< layer norms only
};

struct CompressorWeights {
  PackedMatrix kv, gate;        ///< [row width, hidden]
  const float* bias = nullptr;  ///< [rate, row width]
  const float* norm = nullptr;  ///< [width of an entry]
};

struct IndexerWeights {
  PackedMatrix q;        ///< [heads * dim, query rank]
  PackedMatrix k;        ///< [dim, hidden]
  PackedMatrix weights;  ///< [heads, hidden]
  Norm k_norm;
  CompressorWeights compressor;  ///< in place of k, where there is one
};

struct AttentionWeights {
  PackedMatrix q, k, v;  ///< [heads * dim, hidden]
  PackedMatrix output;   ///< [hidden, heads * value_dim]
  PackedMatrix gate;     ///< of the output [heads or heads * value_dim, hidden]
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *output_bias = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;  ///< [head_dim] or the full row
  const float* sinks = nullptr;                      ///< [heads]

  // Latent attention: q is split into what turns and what does not, and reads the query rank where there is one.
  PackedMatrix q_down;  ///< [query rank, hidden]
  PackedMatrix q_rope;  ///< [heads * rope, hidden or query rank]; q: [heads * nope, ...]
  PackedMatrix latent;  ///< [latent, hidden]
  PackedMatrix k_rope;  ///< [rope, hidden]
  const float *q_down_norm = nullptr, *latent_norm = nullptr;
  std::vector<PackedMatrix> key_up;    ///< per head [latent, nope]: queries into the latent space
  std::vector<PackedMatrix> value_up;  ///< per head [value, latent]
  IndexerWeights indexer;

  // One shared key: q reads the query rank, k and k_norm give the key.
  std::vector<PackedMatrix> output_down;  ///< per group [output rank, its heads * head_dim]
  CompressorWeights compressor;
};

struct DeltaWeights {
  PackedMatrix q, k, v;    ///< [heads * dim, hidden]
  PackedMatrix z, z_down;  ///< gate of the output norm; z_down where it has a rank
  PackedMatrix decay, decay_down;
  PackedMatrix beta;                                                    ///< [value heads, hidden]
  PackedMatrix output;                                                  ///< [hidden, value width]
  const float *q_conv = nullptr, *k_conv = nullptr, *v_conv = nullptr;  ///< [kernel, channels]
  const float* rate = nullptr;                                          ///< [value heads]: -exp(A_log)
  const float* step_bias = nullptr;                                     ///< [value heads] or for every channel
  const float* norm = nullptr;                                          ///< [value_dim]
};

struct MambaWeights {
  PackedMatrix z, xbc, dt;                            ///< [inner], [inner + 2 groups * state], [heads] by hidden
  PackedMatrix output;                                ///< [hidden, inner]
  const float *conv = nullptr, *conv_bias = nullptr;  ///< [kernel, channels], [channels]
  const float *rate = nullptr, *step_bias = nullptr, *skip = nullptr;  ///< [heads]
  const float* norm = nullptr;                                         ///< [inner]
};

struct ShortConvWeights {
  PackedMatrix before, after, x;  ///< [hidden, hidden]: y = after * conv(before * x)
  PackedMatrix output;
  const float *conv = nullptr, *conv_bias = nullptr;
};

struct MoeWeights {
  PackedMatrix router;                     ///< [experts, hidden]
  const float* router_bias = nullptr;      ///< [experts]
  const float* choice_bias = nullptr;      ///< [experts]
  const float* expert_scale = nullptr;     ///< [experts]
  const float* router_norm = nullptr;      ///< [hidden]: the router reads RMS(x) times this, else the block's input
  const int32_t* token_experts = nullptr;  ///< [vocab, top_k]
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;  ///< [stored experts, ...]
  Norm norm, post_norm;                                                        ///< of experts beside a dense MLP
  ExpertWeights shared;
  PackedMatrix shared_router;  ///< [1, hidden]
};

/// How a block is connected to the residual streams.
struct StreamWeights {
  PackedMatrix logits;  ///< [weights, streams * hidden]
  const float *base = nullptr, *scale = nullptr;
};

struct LayerWeights {
  StreamWeights mixer_streams, ffn_streams;
  Norm mixer_norm, mixer_post_norm, ffn_norm, ffn_post_norm;
  AttentionWeights attention;
  DeltaWeights delta;
  MambaWeights mamba;
  ShortConvWeights conv;
  ExpertWeights dense;
  Norm dense_post_norm;
  MoeWeights moe;
  const float* scale = nullptr;  ///< [1]
};

struct ModelWeights {
  PackedMatrix embed;  ///< [vocab, hidden]
  PackedMatrix head;   ///< the same memory as embed when tied
  const float* head_bias = nullptr;
  StreamWeights final_streams;
  Norm final_norm;
  std::vector<LayerWeights> layers;
};

/// Floats to read: norm weights, biases, convolutions.
struct VectorJob {
  enum class Change : uint8_t {
    kNone,
    kPlusOne,   ///< stored minus one
    kMinusExp,  ///< -exp(value)
    kScale,     ///< times `factor`
  };

  const formats::TensorInfo* tensor = nullptr;
  const float** target = nullptr;
  int64_t n = 0;
  int64_t first = 0;  ///< element of the tensor
  int64_t step = 1;   ///< from one element to the next
  int interleaved_heads = 0;
  int64_t transposed_inner = 0;  ///< > 0: the tensor is [n / this, this] and its transpose is wanted
  Change change = Change::kNone;
  float factor = 1.0f;
};

struct MatrixJob {
  store::MatrixSource source;
  PackedMatrix* target = nullptr;
};

/// Whole numbers to read: a table of experts by token.
struct TableJob {
  const formats::TensorInfo* tensor = nullptr;
  const int32_t** target = nullptr;
  int64_t n = 0;
  int32_t end = 0;  ///< every entry is below
};

class WeightPlan {
 public:
  /// Errors name the tensor, what was expected and what is there. `catalog` and `description` must outlive the plan.
  static Result<WeightPlan> make(const ModelDescription& description, const formats::TensorCatalog& catalog);

  int64_t dense_bytes() const { return dense_bytes_; }                          ///< arena memory for place_dense
  int64_t expert_bytes() const;                                                 ///< arena memory for a resident store
  const store::StagingNeed& staging() const { return staging_; }                ///< per loading thread
  int64_t file_bytes() const { return file_bytes_; }                            ///< of everything
  int64_t dense_file_bytes() const { return dense_file_bytes_; }                ///< without the experts
  const std::vector<store::ExpertSource>& experts() const { return experts_; }  ///< [moe layers, stored experts]
  const std::vector<VectorJob>& vectors() const { return vectors_; }
  const std::vector<MatrixJob>& matrices() const { return matrices_; }

  /// Places the dense weights in the arena. The vectors are read at once, so that a damaged norm is found before the
  /// large reads; the matrices are added to `jobs`. kCancelled when `progress` says so.
  Result<std::unique_ptr<ModelWeights>> place_dense(platform::Arena& arena, std::vector<store::LoadJob>& jobs,
                                                    const store::LoadProgress& progress);

 private:
  friend class WeightPlanner;
  void attach_biases();

  const formats::TensorCatalog* catalog_ = nullptr;
  const ModelSpec* spec_ = nullptr;
  bool tied_head_ = false;
  std::unique_ptr<ModelWeights> weights_;  // the jobs' targets point into it
  std::vector<VectorJob> vectors_;
  std::vector<MatrixJob> matrices_;
  std::vector<TableJob> tables_;
  std::vector<store::ExpertSource> experts_;
  int64_t dense_bytes_ = 0;
  store::StagingNeed staging_;
  int64_t file_bytes_ = 0, dense_file_bytes_ = 0;
};

/// Reads a vector as floats in canonical form. kInvalidModel with the index when a value is not finite.
Status read_vector(const formats::TensorCatalog& catalog, const VectorJob& job, float* out);

/// What a tensor that no forward pass reads belongs to: "multi-token prediction", "vision tower", "audio tower", or
/// empty.
std::string_view unused_part(std::string_view tensor, const ModelSpec& spec);

}  // namespace colibri::model
