// OLMoE: norms over the full rows of q and k before they are split into heads, optional clamp of q, k and v after them.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "olmoe");
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kFullRow;
  a.clip_qkv = static_cast<float>(reader.find("clip_qkv") != nullptr ? reader.positive("clip_qkv") : 0.0);
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", false);
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kOlmoe = {
    .name = "olmoe",
    .architectures = {"OlmoeForCausalLM"},
    .gguf_architecture = "olmoe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}}, .synonyms = {{"num_experts", "num_local_experts"}}}};

}  // namespace colibri::model
