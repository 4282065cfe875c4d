// gpt-oss: biases everywhere, a sink logit per head, a window in every second layer, experts with a clamped SwiGLU.
// Weights are MXFP4 blocks, or BF16 with inputs before outputs; gate and up alternate in both.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.sinks = "model.layers.{L}.self_attn.sinks";
  n.router = "model.layers.{L}.mlp.router";
  n.stacked_gate_up_bias = "model.layers.{L}.mlp.experts.gate_up_proj_bias";
  n.stacked_down_bias = "model.layers.{L}.mlp.experts.down_proj_bias";
  n.stacked_transposed = true;
  n.gate_up_interleaved = true;
  return n;
}

TensorNames gguf_names() {
  TensorNames n = kGgufNames;
  n.ffn_norm = "blk.{L}.post_attention_norm";
  n.stacked_down_bias = "blk.{L}.ffn_down_exps";
  return n;
}

const TensorNames kNames = names(), kGguf = gguf_names();

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "gpt_oss");
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", true);
  a.sinks = true;
  std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  for (int l = 0; l < spec.n_layers() && types.size() < spec.layers.size(); ++l)
    types.emplace_back(l % 2 == 0 ? "sliding_attention" : "full_attention");
  split_sliding(reader, spec, types, reader.size("sliding_window"));
  if (!reader.from_gguf() && !reader.has("rope_scaling") && !reader.has("rope_parameters"))
    reader.fail("rope_scaling", "is missing");
  if (reader.from_gguf())
    spec.notes.emplace_back(
        "the correction range of YaRN is rounded, as llama.cpp does; the published config does not");
  spec.activation.kind = compute::ActivationKind::kSwigluClamped;
  spec.activation.limit = static_cast<float>(reader.positive_or("swiglu_limit", 7.0));
  spec.activation.alpha = static_cast<float>(reader.positive_or("swiglu_alpha", 1.702));
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.router.n_experts = reader.size("num_local_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = true;
  spec.moe.router_bias = true;
  spec.moe.expert_bias = true;
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kGptOss = {.name = "gpt_oss",
                               .architectures = {"GptOssForCausalLM"},
                               .gguf_architecture = "gpt-oss",
                               .read_config = read_config,
                               .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"rope_theta", 150000.0}},
                                        .synonyms = {{"num_local_experts", "num_experts"}}},
                               .names = &kNames,
                               .gguf_names = &kGguf};

}  // namespace colibri::model
