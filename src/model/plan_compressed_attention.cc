// Which tensors an attention with one shared key needs (DeepSeek-V4), and its compressors.
#include "model/weight_planner.h"

namespace colibri::model {

Status WeightPlanner::compressed_attention(const AttentionSpec& a, AttentionWeights& w) {
  const int64_t hidden = spec_.hidden_size, groups = a.output_groups, rank = a.output_rank;
  COLIBRI_TRY(matrix(names_.q_down, a.query_rank, hidden, &w.q_down));
  COLIBRI_TRY(vector(names_.q_down_norm, a.query_rank, &w.q_down_norm));
  COLIBRI_TRY(matrix(names_.q_up, a.query_width(), a.query_rank, &w.q));
  COLIBRI_TRY(matrix(names_.k, a.head_dim, hidden, &w.k));
  COLIBRI_TRY(vector(names_.k_norm, a.head_dim, &w.k_norm));
  w.output_down.resize(static_cast<size_t>(groups));
  for (int64_t g = 0; g < groups; ++g)
    COLIBRI_TRY(matrix(names_.output_down, rank, a.output_width() / groups, &w.output_down[static_cast<size_t>(g)],
                       {groups * rank, g * rank}));
  COLIBRI_TRY(matrix(names_.output, hidden, groups * rank, &w.output));
  COLIBRI_TRY(vector(names_.sinks, a.n_heads, &w.sinks));
  if (a.compressor.rate == 0) return {};
  COLIBRI_TRY(compressor(names_.compressor, a.compressor, a.head_dim, w.compressor));
  return a.indexer.n_heads > 0 ? compressed_indexer(a, w.indexer) : Status{};
}

Status WeightPlanner::compressed_indexer(const AttentionSpec& a, IndexerWeights& w) {
  const IndexerSpec& i = a.indexer;
  COLIBRI_TRY(matrix(names_.index_q, int64_t{i.n_heads} * i.head_dim, a.query_rank, &w.q));
  COLIBRI_TRY(matrix(names_.index_weights, i.n_heads, spec_.hidden_size, &w.weights));
  return compressor(names_.index_compressor, a.compressor, i.head_dim, w.compressor);
}

Status WeightPlanner::compressor(const char* pattern, const CompressorSpec& c, int64_t width, CompressorWeights& w) {
  const std::string name(pattern);
  const int64_t rows = (c.overlap ? 2 : 1) * width;
  COLIBRI_TRY(matrix((name + ".wkv").c_str(), rows, spec_.hidden_size, &w.kv));
  COLIBRI_TRY(matrix((name + ".wgate").c_str(), rows, spec_.hidden_size, &w.gate));
  COLIBRI_TRY(vector((name + ".ape").c_str(), c.rate * rows, &w.bias));
  return vector((name + ".norm").c_str(), width, &w.norm);
}

}  // namespace colibri::model
