// WeightPlanner: walks a spec once and turns it into the jobs of a WeightPlan. Private to src/model.
//
// weight_planner.cc finds tensors and makes jobs; the other plan_*.cc say which ones a block needs.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "model/weights.h"

namespace colibri::model {

/// Which rows of a tensor [rows, k] make a matrix: blocks of `block` rows, each `stride` behind the one before.
struct RowPart {
  int64_t rows = 0;  ///< of the whole tensor; 0: exactly those of the matrix
  int64_t first = 0;
  int64_t block = 0;  ///< 0: all in a row
  int64_t stride = 0;
};

class WeightPlanner {
 public:
  WeightPlanner(const ModelDescription& description, const formats::TensorCatalog& catalog);
  Result<WeightPlan> run();

 private:
  // Finding tensors (weight_planner.cc).
  void find_prefix();
  std::string full_name(const char* pattern, int expert = 0) const;
  const formats::TensorInfo* find(const char* pattern, int expert = 0) const;
  bool has(const char* pattern) const { return find(pattern) != nullptr; }
  std::string file_of(const formats::TensorInfo& tensor) const;
  Error missing(const char* pattern, int expert = 0) const;
  Error wrong_shape(const formats::TensorInfo& tensor, const Shape& expected) const;
  Status use(const formats::TensorInfo& tensor, const Shape& expected);

  // Making jobs (weight_planner.cc). Targets are in plan_.weights_.
  Result<store::MatrixSource> source(const char* pattern, const Shape& expected, int expert = 0);
  Status matrix(const char* pattern, int64_t n, int64_t k, PackedMatrix* target, const RowPart& part = {},
                int heads = 0);
  void add(const store::MatrixSource& source, PackedMatrix* target);
  Status vector(const char* pattern, int64_t n, const float** target, VectorJob job = {});
  Status bias(bool wanted, const char* pattern, int64_t n, const float** target, VectorJob job = {});
  Status norm(const char* pattern, int64_t n, Norm* target);
  Status streams(const char* pattern, int64_t n_weights, int64_t n_scales, StreamWeights* target);
  Status rms_weight(const char* pattern, int64_t n, const float** target);
  Status convolution(const char* pattern, int64_t channels, int kernel, const float** target, int64_t first = 0,
                     int64_t all_channels = 0);
  Status refuse_leftovers() const;
  void account(const store::MatrixSource& source);
  void add_up();

  Status layer();
  // Mixers (plan_mixers.cc).
  Status attention(const AttentionSpec& a, AttentionWeights& w);
  Status grouped_projections(const AttentionSpec& a, AttentionWeights& w);
  Status query_and_gate(const AttentionSpec& a, AttentionWeights& w);
  Status latent_attention(const AttentionSpec& a, AttentionWeights& w);
  Status latent_queries(const AttentionSpec& a, AttentionWeights& w);
  Status latent_heads(const AttentionSpec& a, AttentionWeights& w);
  Status indexer(const AttentionSpec& a, IndexerWeights& w);
  // plan_compressed_attention.cc
  Status compressed_attention(const AttentionSpec& a, AttentionWeights& w);
  Status compressed_indexer(const AttentionSpec& a, IndexerWeights& w);
  Status compressor(const char* pattern, const CompressorSpec& c, int64_t width, CompressorWeights& w);
  Status delta(DeltaWeights& w);
  Status delta_projections(const DeltaSpec& d, DeltaWeights& w);
  Status delta_convolutions(const DeltaSpec& d, DeltaWeights& w);
  Status mamba(MambaWeights& w);
  Status short_conv(ShortConvWeights& w);
  Status log_decay(const char* log_pattern, const char* pattern, int64_t n, const float** target);

  // Feed-forward (plan_feed_forward.cc).
  Status dense(int64_t width, ExpertWeights* target);
  Status moe(const LayerSpec& layer, MoeWeights& w);
  Status router(const LayerSpec& layer, MoeWeights& w);
  Status shared_expert(MoeWeights& w);
  Status expert_biases(MoeWeights& w);
  Status experts();
  Status expert(int e, store::ExpertSource* target);
  Status stacked(const char* pattern, int e, int64_t n, int64_t k, int64_t first, int64_t rows, bool alternate,
                 store::MatrixSource* target);

  bool gated() const { return compute::is_gated(spec_.activation); }

  const ModelDescription& description_;
  const ModelSpec& spec_;
  const TensorNames& names_;
  const formats::TensorCatalog& catalog_;
  std::string prefix_ = "model.";
  int layer_ = 0;           // position in spec_.layers
  bool quantised_ = false;  // some weight is made from codes of a quantisation
  std::unordered_set<const formats::TensorInfo*> used_;
  WeightPlan plan_;
};

}  // namespace colibri::model
