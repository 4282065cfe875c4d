// LFM2-MoE: gated short convolutions with attention in between; sigmoid routing with a bias for the choice.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.final_norm = "model.embedding_norm";
  n.attention_norm = "model.layers.{L}.operator_norm";
  n.ffn_norm = "model.layers.{L}.ffn_norm";
  n.output = "model.layers.{L}.self_attn.out_proj";
  n.q_norm = "model.layers.{L}.self_attn.q_layernorm";
  n.k_norm = "model.layers.{L}.self_attn.k_layernorm";
  n.conv_in = "model.layers.{L}.conv.in_proj";
  n.conv = "model.layers.{L}.conv.conv";
  n.conv_out = "model.layers.{L}.conv.out_proj";
  n.gate = "model.layers.{L}.feed_forward.w1";
  n.up = "model.layers.{L}.feed_forward.w3";
  n.down = "model.layers.{L}.feed_forward.w2";
  n.router = "model.layers.{L}.feed_forward.gate";
  n.choice_bias = "model.layers.{L}.feed_forward.expert_bias";
  n.expert_gate = "model.layers.{L}.feed_forward.experts.{E}.w1";
  n.expert_up = "model.layers.{L}.feed_forward.experts.{E}.w3";
  n.expert_down = "model.layers.{L}.feed_forward.experts.{E}.w2";
  return n;
}

TensorNames gguf_names() {
  TensorNames n = kGgufNames;
  n.final_norm = "token_embd_norm";
  return n;
}

const TensorNames kNames = names(), kGguf = gguf_names();

void read_layers(ConfigReader& reader, ModelSpec& spec) {
  first_layers_dense(spec, reader.count_or("num_dense_layers", 2), reader.size("intermediate_size"));
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  if (types.empty()) reader.fail("layer_types", "is missing");
  for (size_t l = 0; l < types.size(); ++l) {
    if (types[l] != "conv" && types[l] != "full_attention")
      reader.fail_unsupported("layer_types", "holds \"" + types[l] + "\"; this family has conv and full_attention");
    spec.layers[l].mixer = types[l] == "conv" ? Mixer::kShortConv : Mixer::kAttention;
  }
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "lfm2_moe", "num_hidden_layers", "norm_eps");
  spec.attentions[0].qk_norm = QkNorm::kPerHead;
  spec.tied_head = reader.flag_or("tie_word_embeddings", reader.flag_or("tie_embedding", true));
  spec.conv.kernel = reader.size("conv_L_cache", compute::kMaxConvKernel);
  spec.conv.bias = reader.flag_or("conv_bias", false);
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.choice_bias = reader.flag_or("use_expert_bias", true);
  compute::RouterParams& router = spec.moe.router;
  router.kind = compute::RouterKind::kSigmoid;
  reader.require_value("scoring_func", "sigmoid");
  router.n_experts = reader.size("num_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.renormalise = reader.flag_or("norm_topk_prob", true);
  router.sum_offset = 1e-6f;
  router.scale = static_cast<float>(reader.positive_or("routed_scaling_factor", 1.0));
  read_layers(reader, spec);
  return reader.finish(std::move(spec));
}

Status translate_gguf(const GgufFile& file, Json& config) {
  config.set("layer_types", file.layer_types("attention.head_count_kv", "full_attention", "conv"));
  file.copy("shortconv.l_cache", "conv_L_cache", config);
  return {};
}

}  // namespace

extern const Family kLfm2Moe = {
    .name = "lfm2_moe",
    .architectures = {"Lfm2MoeForCausalLM"},
    .gguf_architecture = "lfm2moe",
    .read_config = read_config,
    .keys = {.defaults = {{"norm_eps", 1e-5}, {"rope_theta", 1e6}},
             .synonyms = {{"num_experts", "num_local_experts"}},
             .unused = {"block_dim", "block_auto_adjust_ff_dim", "block_ff_dim", "block_ffn_dim_multiplier",
                        "block_mlp_init_scale", "block_multiple_of", "block_norm_eps", "block_out_init_scale",
                        "block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out",
                        "conv_use_xavier_init"}},
    .names = &kNames,
    .gguf_names = &kGguf,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model
