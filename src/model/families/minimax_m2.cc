// MiniMax-M2: norms over the full rows of q and k, half of each head turns, sigmoid routing with a bias for the choice.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kMixtralNames;
  n.choice_bias = "model.layers.{L}.block_sparse_moe.e_score_correction_bias";
  return n;
}

const TensorNames kNames = names();

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "minimax_m2");
  AttentionSpec& a = spec.attentions[0];
  if (reader.flag_or("use_qk_norm", true)) a.qk_norm = QkNorm::kFullRow;
  reader.require_value("qk_norm_type", "per_layer");
  spec.ropes[0] = read_rope(reader, a.head_dim, reader.size_or("rotary_dim", a.head_dim, a.head_dim));
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.choice_bias = reader.flag_or("use_routing_bias", true);
  compute::RouterParams& router = spec.moe.router;
  reader.require_value("scoring_func", "sigmoid");
  router.kind = compute::RouterKind::kSigmoid;
  router.n_experts = reader.size("num_local_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.renormalise = true;
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kMinimaxM2 = {.name = "minimax_m2",
                                  .architectures = {"MiniMaxM2ForCausalLM"},
                                  .gguf_architecture = "minimax-m2",
                                  .read_config = read_config,
                                  .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"rope_theta", 5e6}},
                                           .synonyms = {{"num_local_experts", "num_experts"}},
                                           .partial_rotary = true},
                                  .names = &kNames};

}  // namespace colibri::model
