// OLMoE: norms over the full rows of q and k before they are split into heads, optional clamp of q, k and v after them.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "olmoe");
  const bool bias = reader.flag_or("attention_bias", false);
  spec.attention.qkv_bias = bias;
  spec.attention.output_bias = bias;
  spec.attention.qk_norm = QkNorm::kFullRow;
  spec.attention.clip_qkv = static_cast<float>(reader.find("clip_qkv") != nullptr ? reader.positive("clip_qkv") : 0.0);
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", false);
  for (LayerSpec& layer : spec.layers) layer.moe = true;
  return reader.finish(std::move(spec));
}

}  // namespace

const Family kOlmoe = {"olmoe", "OlmoeForCausalLM", "olmoe", read_config, &kHuggingFaceNames, false};

}  // namespace colibri::model
