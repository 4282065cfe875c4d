// LongCat-Flash: every layer is two layers of latent attention and a dense MLP. Experts read what the first MLP reads
// and are added behind the second; some of them give back their input.
#include <cmath>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.attention_norm = "model.layers.{L}.input_layernorm.{S}";
  n.ffn_norm = "model.layers.{L}.post_attention_layernorm.{S}";
  n.q_down = "model.layers.{L}.self_attn.{S}.q_a_proj";
  n.q_down_norm = "model.layers.{L}.self_attn.{S}.q_a_layernorm";
  n.q_up = "model.layers.{L}.self_attn.{S}.q_b_proj";
  n.kv_down = "model.layers.{L}.self_attn.{S}.kv_a_proj_with_mqa";
  n.kv_down_norm = "model.layers.{L}.self_attn.{S}.kv_a_layernorm";
  n.kv_up = "model.layers.{L}.self_attn.{S}.kv_b_proj";
  n.output = "model.layers.{L}.self_attn.{S}.o_proj";
  n.gate = "model.layers.{L}.mlps.{S}.gate_proj";
  n.up = "model.layers.{L}.mlps.{S}.up_proj";
  n.down = "model.layers.{L}.mlps.{S}.down_proj";
  n.router = "model.layers.{L}.mlp.router.classifier";
  n.choice_bias = "model.layers.{L}.mlp.router.e_score_correction_bias";
  return n;
}

const TensorNames kNames = names();

// Latents are scaled up to the size that rows of the hidden width would have.
void read_attention(ConfigReader& reader, ModelSpec& spec) {
  read_latent_attention(reader, spec);
  AttentionSpec& a = spec.attentions[0];
  const auto growth = [&spec](int rank) {
    return static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size) / rank));
  };
  reader.require_value("attention_method", "MLA");
  for (const char* key : {"mla_scale_q_lora", "mla_scale_kv_lora"}) reader.require_value(key, true);
  if (a.query_rank > 0) a.scale *= growth(a.query_rank);
  a.latent_scale = growth(a.latent_dim);
}

void read_router(ConfigReader& reader, ModelSpec& spec) {
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("expert_ffn_hidden_size");
  moe.choice_bias = true;
  moe.router_bias = reader.flag_or("router_bias", false);
  moe.identity_experts = reader.count_or("zero_expert_num", 0);
  if (moe.identity_experts > 0) reader.require_value("zero_expert_type", "identity");
  moe.router.n_experts = reader.size("n_routed_experts", 65536) + moe.identity_experts;
  moe.router.top_k = reader.size("moe_topk", moe.router.n_experts);
  moe.router.scale = static_cast<float>(reader.positive_or("routed_scaling_factor", 1.0));
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "longcat_flash", "num_layers");
  reader.require_neutral("attention_bias", false);
  read_attention(reader, spec);
  read_router(reader, spec);
  const int width = reader.size("ffn_hidden_size");
  std::vector<LayerSpec> halves;
  for (LayerSpec layer : spec.layers) {
    layer.dense_width = width;
    layer.moe = layer.late_moe = true;
    halves.push_back(layer);
    layer.moe = layer.late_moe = false;
    layer.part = 1;
    halves.push_back(layer);
  }
  spec.layers = std::move(halves);
  return reader.finish(std::move(spec));
}

}  // namespace

extern const Family kLongcatFlash = {.name = "longcat_flash",
                                     .architectures = {"LongcatFlashForCausalLM"},
                                     .gguf_architecture = "",
                                     .read_config = read_config,
                                     .keys = {.defaults = {{"rms_norm_eps", 1e-5},
                                                           {"rope_theta", 1e7},
                                                           {"routed_scaling_factor", 6.0},
                                                           {"zero_expert_num", 256}},
                                              .synonyms = {{"n_routed_experts", "num_local_experts"},
                                                           {"moe_topk", "num_experts_per_tok"},
                                                           {"expert_ffn_hidden_size", "moe_intermediate_size"},
                                                           {"num_layers", "num_hidden_layers"}}},
                                     .names = &kNames};

}  // namespace colibri::model
