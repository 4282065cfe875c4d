// MiMo-V2-Flash: most layers have a window, twice the KV heads and sink logits; values are narrower than keys and
// scaled.
#include <cmath>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kDeepseekNames;
  n.sinks = "model.layers.{L}.self_attn.attention_sink_bias";
  return n;
}

const TensorNames kNames = names();

// sliding_window_size counts the earlier tokens of a window, sliding_window the query's own too.
void read_attention(ConfigReader& reader, ModelSpec& spec) {
  AttentionSpec& full = spec.attentions[0];
  full.qkv_bias = reader.flag_or("attention_bias", false);
  full.value_dim = reader.size_or("v_head_dim", full.head_dim, 4096);
  full.value_scale = static_cast<float>(reader.positive_or("attention_value_scale", 1.0));
  full.sinks = reader.flag_or("add_full_attention_sink_bias", false);
  spec.attentions.push_back(full);
  AttentionSpec& sliding = spec.attentions[1];
  reader.find("sliding_window");  // published configs have both, and the other one counts
  sliding.window = reader.find("sliding_window_size") != nullptr ? reader.size("sliding_window_size") + 1
                                                                 : reader.size_or("sliding_window", 129);
  sliding.n_heads = reader.size_or("swa_num_attention_heads", sliding.n_heads, 4096);
  sliding.n_kv_heads = reader.size_or("swa_num_key_value_heads", 2 * sliding.n_kv_heads, 4096);
  sliding.head_dim = reader.size_or("swa_head_dim", sliding.head_dim, 4096);
  sliding.value_dim = reader.size_or("swa_v_head_dim", sliding.value_dim, 4096);
  sliding.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(sliding.head_dim)));
  sliding.sinks = reader.flag_or("add_swa_attention_sink_bias", true);
  sliding.rope = 1;
  if (sliding.n_heads % sliding.n_kv_heads != 0)
    reader.fail("swa_num_key_value_heads", "does not divide the query heads");
  spec.ropes.push_back(read_rope(reader, sliding.head_dim, sliding.head_dim));
  spec.ropes[1].theta = reader.positive_or("swa_rope_theta", spec.ropes[0].theta);
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "mimo_v2_flash");
  read_attention(reader, spec);
  read_deepseek_router(reader, spec);
  const int width = reader.size("intermediate_size");
  for (LayerSpec& layer : spec.layers) {
    layer.attention =
        reader.flag_at_or("hybrid_layer_pattern", layer.number, layer.number > 0 && (layer.number + 1) % 6 != 0) ? 1
                                                                                                                 : 0;
    layer.moe = reader.flag_at_or("moe_layer_freq", layer.number, layer.number > 0);
    layer.dense_width = layer.moe ? 0 : width;
  }
  return reader.finish(std::move(spec));
}

Status translate_gguf(const GgufFile& file, Json& config) {
  Json::Array sliding, moe;
  for (int l = 0; l < file.n_layers(); ++l) {
    const bool window = file.number_at("attention.sliding_window_pattern", l) != 0;
    sliding.emplace_back(window);
    moe.emplace_back(file.has("ffn_gate_inp.weight", l));
    config.set(window ? "swa_num_key_value_heads" : "num_key_value_heads",
               whole_number(file.number_at("attention.head_count_kv", l)));
  }
  config.set("hybrid_layer_pattern", std::move(sliding));
  config.set("moe_layer_freq", std::move(moe));
  config.set("sliding_window_size", file.number_or("attention.sliding_window", 128) - 1);
  file.copy("rope.freq_base_swa", "swa_rope_theta", config);
  file.copy("attention.value_scale", "attention_value_scale", config);
  return {};
}

}  // namespace

extern const Family kMimoV2Flash = {
    .name = "mimo_v2_flash",
    .architectures = {"MiMoV2FlashForCausalLM"},
    .gguf_architecture = "mimo2",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5},
                          {"rope_theta", 5e6},
                          {"swa_rope_theta", 10000.0},
                          {"attention_value_scale", 0.707},
                          {"partial_rotary_factor", 0.334}},
             .synonyms = {{"rms_norm_eps", "layernorm_epsilon"}, {"n_routed_experts", "num_local_experts"}},
             .unused = {"attention_chunk_size"},
             .partial_rotary = true},
    .names = &kNames,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model
