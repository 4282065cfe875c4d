// Trinity (AFMoE): norms before and behind every block, a gate on the attention's output, RoPE only in the layers with
// a window; sigmoid routing with a bias for the choice beside shared experts.
#include <cmath>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kDeepseekNames;
  n.attention_post_norm = "model.layers.{L}.post_attention_layernorm";
  n.ffn_norm = "model.layers.{L}.pre_mlp_layernorm";
  n.ffn_post_norm = "model.layers.{L}.post_mlp_layernorm";
  n.gate_attention = "model.layers.{L}.self_attn.gate_proj";
  n.router = "model.layers.{L}.mlp.router.gate";
  n.choice_bias = "model.layers.{L}.mlp.expert_bias";
  return n;
}

const TensorNames kNames = names();

void read_router(ConfigReader& reader, ModelSpec& spec) {
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("moe_intermediate_size");
  moe.shared_width = read_shared_width(reader, "num_shared_experts", moe.expert_width);
  moe.choice_bias = true;
  reader.require_value("score_func", "sigmoid");
  for (const char* key : {"n_group", "topk_group", "num_expert_groups", "num_limited_groups"})
    reader.require_neutral(key, 1);
  compute::RouterParams& router = moe.router;
  router.kind = compute::RouterKind::kSigmoid;
  router.n_experts = reader.size("num_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.renormalise = reader.flag_or("route_norm", true);
  router.sum_offset = 1e-20f;
  router.scale = static_cast<float>(reader.positive_or("route_scale", 1.0));
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "afmoe");
  spec.post_norm = true;
  if (reader.flag_or("mup_enabled", false))
    spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kPerHead;
  a.output_gate = OutputGate::kPerChannel;
  std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  const int interval = reader.size_or("global_attn_every_n_layers", 4);
  for (int l = 0; l < spec.n_layers() && types.size() < spec.layers.size(); ++l)
    types.emplace_back((l + 1) % interval == 0 ? "full_attention" : "sliding_attention");
  split_sliding(reader, spec, types, reader.size("sliding_window"));
  spec.attentions[0].rope = -1;
  read_router(reader, spec);
  first_layers_dense(spec, reader.count_or("num_dense_layers", 0), reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

// llama.cpp always scales the embeddings.
Status translate_gguf(const GgufFile& file, Json& config) {
  config.set("mup_enabled", true);
  file.copy_windows("global_attn_every_n_layers", config);
  return {};
}

}  // namespace

extern const Family kAfmoe = {
    .name = "afmoe",
    .architectures = {"AfmoeForCausalLM"},
    .gguf_architecture = "afmoe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"num_dense_layers", 1}, {"num_shared_experts", 2}},
             .synonyms = {{"num_experts", "num_local_experts"}}},
    .names = &kNames,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model
