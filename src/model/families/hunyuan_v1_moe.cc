// Hunyuan-A13B: norms on q and k behind RoPE, whose base is stretched by alpha; one ungated shared expert.
#include <algorithm>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.q_norm = "model.layers.{L}.self_attn.query_layernorm";
  n.k_norm = "model.layers.{L}.self_attn.key_layernorm";
  n.router = "model.layers.{L}.mlp.gate.wg";
  n.shared_gate = "model.layers.{L}.mlp.shared_mlp.gate_proj";
  n.shared_up = "model.layers.{L}.mlp.shared_mlp.up_proj";
  n.shared_down = "model.layers.{L}.mlp.shared_mlp.down_proj";
  return n;
}

const TensorNames kNames = names();

// Numbers of experts and widths are lists with an entry per layer, or one number.
int same_in_all_layers(ConfigReader& reader, const ModelSpec& spec, const char* key, int64_t max) {
  const int first = reader.size_at(key, 0, max);
  for (int l = 1; l < spec.n_layers(); ++l)
    if (reader.size_at(key, l, max) != first) reader.fail_unsupported(key, "differs between layers");
  return first;
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "hunyuan_v1_moe");
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = reader.flag_or("use_qk_norm", true) ? QkNorm::kPerHead : QkNorm::kNone;
  a.norm_after_rope = true;
  reader.require_neutral("use_cla", false);
  const bool own_width = reader.find("moe_intermediate_size") != nullptr;
  spec.moe.expert_width =
      own_width ? same_in_all_layers(reader, spec, "moe_intermediate_size", 1 << 20) : reader.size("intermediate_size");
  spec.moe.shared_width =
      reader.flag_or("use_mixed_mlp_moe", true)
          ? reader.size("intermediate_size") * same_in_all_layers(reader, spec, "num_shared_expert", 64)
          : 0;
  spec.moe.router.n_experts = same_in_all_layers(reader, spec, "num_experts", 65536);
  spec.moe.router.top_k = same_in_all_layers(reader, spec, "moe_topk", spec.moe.router.n_experts);
  spec.moe.router.renormalise = true;
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

// The stretched base is in the file; the shared expert is as wide as its tensor.
Status translate_gguf(const GgufFile& file, Json& config) {
  config.set("num_shared_expert", file.number_or("expert_shared_feed_forward_length", 0) /
                                      std::max(1.0, file.number_or("feed_forward_length", 1)));
  if (const Json* width = config.find_value("shared_expert_intermediate_size"); width != nullptr && width->is_number())
    config.set("num_shared_expert", width->as_double() / std::max(1.0, file.number_or("feed_forward_length", 1)));
  return {};
}

}  // namespace

extern const Family kHunyuanV1Moe = {
    .name = "hunyuan_v1_moe",
    .architectures = {"HunYuanMoEV1ForCausalLM"},
    .gguf_architecture = "hunyuan-moe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}},
             .synonyms = {{"moe_topk", "num_experts_per_tok"}, {"num_experts", "num_local_experts"}},
             .unused = {"cla_share_factor", "dense_list", "moe_layer_num_skipped", "moe_random_routing_dropped_token",
                        "vit_type"}},
    .names = &kNames,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model
