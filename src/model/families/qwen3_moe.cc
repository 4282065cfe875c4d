// Qwen3: per-head norms on q and k. Qwen3-MoE: softmax over all experts, top k, usually renormalised, no shared expert.
#include "model/families/family.h"

namespace colibri::model {
namespace {

ModelSpec read_attention(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_common(reader, family);
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kPerHead;
  return spec;
}

Result<ModelSpec> read_dense(ConfigReader& reader) {
  ModelSpec spec = read_attention(reader, "qwen3");
  all_layers_dense(spec, reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_attention(reader, "qwen3_moe");
  read_sparse_layers(reader, spec, reader.size("intermediate_size"));
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", false);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kQwen3 = {.name = "qwen3",
                              .architectures = {"Qwen3ForCausalLM"},
                              .gguf_architecture = "qwen3",
                              .read_config = read_dense,
                              .keys = {.defaults = {{"rms_norm_eps", 1e-6}}}};

extern const Family kQwen3Moe = {
    .name = "qwen3_moe",
    .architectures = {"Qwen3MoeForCausalLM"},
    .gguf_architecture = "qwen3moe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-6}}, .synonyms = {{"num_experts", "num_local_experts"}}}};

}  // namespace colibri::model
