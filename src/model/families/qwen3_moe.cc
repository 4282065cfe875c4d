// Qwen3-MoE: per-head norms on q and k, softmax over all experts, top k, usually renormalised, no shared expert.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "qwen3_moe");
  const bool bias = reader.flag_or("attention_bias", false);
  spec.attention.qkv_bias = bias;
  spec.attention.output_bias = bias;
  spec.attention.qk_norm = QkNorm::kPerHead;
  spec.layers = read_sparse_layers(reader, spec.n_layers(), reader.size("intermediate_size"));
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", false);
  return reader.finish(std::move(spec));
}

}  // namespace

const Family kQwen3Moe = {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3moe", read_config, &kHuggingFaceNames, false};

}  // namespace colibri::model
