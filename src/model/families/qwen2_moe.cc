// Qwen1.5-MoE and Qwen2-MoE: biases on q, k and v; beside the chosen experts a shared one behind a sigmoid gate.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "qwen2_moe");
  spec.attention.qkv_bias = reader.flag_or("qkv_bias", true);
  spec.layers = read_sparse_layers(reader, spec.n_layers(), reader.size("intermediate_size"));
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.shared_width = reader.size("shared_expert_intermediate_size");
  spec.moe.shared_gate = true;
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", false);
  return reader.finish(std::move(spec));
}

}  // namespace

const Family kQwen2Moe = {"qwen2_moe", "Qwen2MoeForCausalLM", "qwen2moe", read_config, &kHuggingFaceNames, false};

}  // namespace colibri::model
