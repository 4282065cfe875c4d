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

struct LayerWeights {
  const float* attention_norm = nullptr;  ///< [hidden]
  PackedMatrix q, k, v;                   ///< [heads * head_dim, hidden], halves together
  PackedMatrix output;                    ///< [hidden, heads * head_dim]
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *output_bias = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;  ///< [head_dim] or the full row
  const float* ffn_norm = nullptr;                   ///< [hidden]
  ExpertWeights dense;                               ///< layers without experts
  PackedMatrix router;                               ///< [experts, hidden]
  ExpertWeights shared;                              ///< shared expert, where the spec has one
  PackedMatrix shared_router;                        ///< [1, hidden]
};

struct ModelWeights {
  PackedMatrix embed;  ///< [vocab, hidden]
  PackedMatrix head;   ///< the same memory as embed when tied
  const float* final_norm = nullptr;
  std::vector<LayerWeights> layers;
};

/// A float vector to read: norm weights, biases.
struct VectorJob {
  const formats::TensorInfo* tensor = nullptr;
  int64_t n = 0;
  int interleaved_heads = 0;
  const float** target = nullptr;
};

struct MatrixJob {
  store::MatrixSource source;
  PackedMatrix* target = nullptr;
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
  const std::vector<store::ExpertSource>& experts() const { return experts_; }  ///< [moe layers, n_experts]
  const std::vector<VectorJob>& vectors() const { return vectors_; }
  const std::vector<MatrixJob>& matrices() const { return matrices_; }

  /// Places the dense weights in the arena. The vectors are read at once, so that a damaged norm is found before the
  /// large reads; the matrices are added to `jobs`. kCancelled when `progress` says so.
  Result<std::unique_ptr<ModelWeights>> place_dense(platform::Arena& arena, std::vector<store::LoadJob>& jobs,
                                                    const store::LoadProgress& progress);

 private:
  friend class WeightPlanner;
  const formats::TensorCatalog* catalog_ = nullptr;
  bool tied_head_ = false;
  std::unique_ptr<ModelWeights> weights_;  // the jobs' targets point into it
  std::vector<VectorJob> vectors_;
  std::vector<MatrixJob> matrices_;
  std::vector<store::ExpertSource> experts_;
  int64_t dense_bytes_ = 0;
  store::StagingNeed staging_;
  int64_t file_bytes_ = 0, dense_file_bytes_ = 0;
};

/// Reads a vector as floats, un-interleaved. kInvalidModel with the index when a value is not finite.
Status read_vector(const formats::TensorCatalog& catalog, const VectorJob& job, float* out);

}  // namespace colibri::model
