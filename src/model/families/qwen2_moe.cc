// Qwen2 and Qwen1.5/2-MoE: biases on q, k and v; beside the chosen experts a shared one behind a sigmoid gate.
#include "model/families/family.h"

namespace colibri::model {
namespace {

Result<ModelSpec> read_dense(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "qwen2");
  spec.attentions[0].qkv_bias = reader.flag_or("attention_bias", true);
  all_layers_dense(spec, reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "qwen2_moe");
  spec.attentions[0].qkv_bias = reader.flag_or("qkv_bias", reader.flag_or("attention_bias", true));
  read_sparse_layers(reader, spec, reader.size("intermediate_size"));
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.shared_width = reader.size("shared_expert_intermediate_size");
  spec.moe.shared_gate = true;
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", false);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kQwen2 = {.name = "qwen2",
                              .architectures = {"Qwen2ForCausalLM"},
                              .gguf_architecture = "qwen2",
                              .read_config = read_dense,
                              .keys = {.defaults = {{"rms_norm_eps", 1e-6}}}};

extern const Family kQwen2Moe = {
    .name = "qwen2_moe",
    .architectures = {"Qwen2MoeForCausalLM"},
    .gguf_architecture = "qwen2moe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-6}}, .synonyms = {{"num_experts", "num_local_experts"}}}};

}  // namespace colibri::model
