// Gemma 3 (dense) and Gemma 4 (with experts beside a dense MLP): norms before and behind every block, GELU, windows in
// most layers, other RoPE frequencies in the layers that see everything. Gemma 3 stores norm weights minus one.
#include <array>
#include <cmath>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.attention_post_norm = "model.layers.{L}.post_attention_layernorm";
  n.ffn_norm = "model.layers.{L}.pre_feedforward_layernorm";
  n.ffn_post_norm = "model.layers.{L}.post_feedforward_layernorm";
  n.layer_scale = "model.layers.{L}.layer_scalar";
  n.dense_post_norm = "model.layers.{L}.post_feedforward_layernorm_1";
  n.experts_norm = "model.layers.{L}.pre_feedforward_layernorm_2";
  n.experts_post_norm = "model.layers.{L}.post_feedforward_layernorm_2";
  n.router = "model.layers.{L}.router.proj";
  n.router_norm = "model.layers.{L}.router.scale";
  n.expert_scale = "model.layers.{L}.router.per_expert_scale";
  n.stacked_gate_up = "model.layers.{L}.experts.gate_up_proj";
  n.stacked_down = "model.layers.{L}.experts.down_proj";
  return n;
}

TensorNames gguf_names() {
  TensorNames n = kGgufNames;
  n.layer_scale = "blk.{L}.layer_output_scale";
  n.dense_post_norm = "blk.{L}.post_ffw_norm_1";
  n.experts_norm = "blk.{L}.pre_ffw_norm_2";
  n.experts_post_norm = "blk.{L}.post_ffw_norm_2";
  n.router_norm = "blk.{L}.ffn_gate_inp.scale";
  n.expert_scale = "blk.{L}.ffn_down_exps.scale";
  return n;
}

const TensorNames kNames = names(), kGguf = gguf_names();

// attentions[0] sees everything, attentions[1] has the window; each with its own RoPE.
void read_kinds_of_layers(ConfigReader& reader, ModelSpec& spec) {
  const Json* ropes = reader.find("rope_parameters");
  const Json* full = ropes != nullptr ? ropes->find_value("full_attention") : nullptr;
  const Json* local = ropes != nullptr ? ropes->find_value("sliding_attention") : nullptr;
  const int head_dim = spec.attentions[0].head_dim;
  if (full != nullptr && local != nullptr) {
    spec.ropes = {read_rope(reader, full, head_dim, head_dim), read_rope(reader, local, head_dim, head_dim)};
  } else {  // before transformers 5: rope_scaling for the layers that see everything, a bare base for the others
    spec.ropes = {read_rope(reader, reader.find("rope_scaling"), head_dim, head_dim), {}};
    spec.ropes[1].rotary_dim = head_dim;
    spec.ropes[1].theta = reader.positive_or("rope_local_base_freq", 10000.0);
  }
  std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  const int pattern = reader.size_or("sliding_window_pattern", reader.size_or("_sliding_window_pattern", 6));
  for (int l = 0; l < spec.n_layers() && types.size() < spec.layers.size(); ++l)
    types.emplace_back((l + 1) % pattern == 0 ? "full_attention" : "sliding_attention");
  split_sliding(reader, spec, types, reader.size("sliding_window"));
  spec.attentions[1].rope = 1;
}

ModelSpec read_model(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_common(reader, family);
  spec.post_norm = true;
  spec.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.activation.kind = compute::ActivationKind::kGeluTanh;
  const char* key = reader.find("hidden_activation") != nullptr ? "hidden_activation" : "hidden_act";
  reader.require_value(key, "gelu_pytorch_tanh");
  spec.logit_cap = static_cast<float>(
      reader.find("final_logit_softcapping") != nullptr ? reader.positive("final_logit_softcapping") : 0.0);
  reader.require_neutral("use_bidirectional_attention", false);
  spec.tied_head = reader.flag_or("tie_word_embeddings", true);
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kPerHead;
  return spec;
}

Result<ModelSpec> read_gemma3(ConfigReader& reader) {
  ModelSpec spec = read_model(reader, "gemma3_text");
  spec.norm_plus_one = true;
  AttentionSpec& a = spec.attentions[0];
  a.scale = static_cast<float>(1.0 / std::sqrt(reader.positive_or("query_pre_attn_scalar", 256.0)));
  a.soft_cap = static_cast<float>(
      reader.find("attn_logit_softcapping") != nullptr ? reader.positive("attn_logit_softcapping") : 0.0);
  read_kinds_of_layers(reader, spec);
  all_layers_dense(spec, reader.size("intermediate_size"));
  return reader.finish(std::move(spec));
}

// Layers that see everything have heads of their own size, and their values are their keys before norm and RoPE. The
// sizes stand in an entry per layer, or as global_*.
void read_full_layers(ConfigReader& reader, ModelSpec& spec) {
  AttentionSpec& full = spec.attentions[0];
  const Json* by_layer = reader.find("per_layer_config");
  if (by_layer != nullptr && !by_layer->is_object()) reader.fail("per_layer_config", "is no object");
  for (const LayerSpec& layer : spec.layers) {
    const Json* own = by_layer != nullptr ? by_layer->find_value(std::to_string(layer.number)) : nullptr;
    if (own == nullptr || !own->is_object() || layer.attention != 0) continue;
    ConfigReader entry = reader.block(*own, "per_layer_config");
    full.head_dim = entry.size_or("head_dim", full.head_dim, 4096);
    full.n_kv_heads = entry.size_or("num_key_value_heads", full.n_kv_heads, 4096);
    reader.take(entry.finish_block());
  }
  if (by_layer == nullptr) {
    full.head_dim = reader.size_or("global_head_dim", 512, 4096);
    full.n_kv_heads = reader.size_or("num_global_key_value_heads", full.n_kv_heads, 4096);
  }
  full.value_is_key = reader.flag_or("attention_k_eq_v", false);
  full.value_dim = full.head_dim;
  if (full.n_heads % full.n_kv_heads != 0)
    reader.fail("num_global_key_value_heads", "does not divide the number of query heads");
}

Result<ModelSpec> read_gemma4(ConfigReader& reader) {
  ModelSpec spec = read_model(reader, "gemma4");
  spec.layer_scale = true;
  AttentionSpec& a = spec.attentions[0];
  a.scale = 1.0f;
  a.value_norm = true;
  read_kinds_of_layers(reader, spec);
  read_full_layers(reader, spec);
  const Json* ropes = reader.find("rope_parameters");
  spec.ropes[0] = read_rope(reader, ropes != nullptr ? ropes->find_value("full_attention") : nullptr,
                            spec.attentions[0].head_dim, spec.attentions[0].head_dim);
  all_layers_dense(spec, reader.size("intermediate_size"));
  if (!reader.flag_or("enable_moe_block", false)) return reader.finish(std::move(spec));
  for (LayerSpec& layer : spec.layers) layer.moe = true;
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("moe_intermediate_size");
  moe.expert_scale = true;
  moe.own_norms = true;
  moe.router_norm_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.hidden_size)));
  moe.router.n_experts = reader.size("num_experts", 65536);
  moe.router.top_k = reader.size("top_k_experts", moe.router.n_experts);
  moe.router.renormalise = true;
  return reader.finish(std::move(spec));
}

// llama.cpp scales by the head, but in the model with 62 layers by what is left of the hidden width.
Status translate_gemma3(const GgufFile& file, Json& config) {
  const double heads = file.number_or("attention.head_count", 1);
  config.set("query_pre_attn_scalar", file.n_layers() == 62 ? file.number_or("embedding_length", 0) / heads
                                                            : file.number_or("attention.key_length", 256));
  file.copy("rope.freq_base_swa", "rope_local_base_freq", config);
  file.copy_windows("sliding_window_pattern", config);
  return {};
}

Status translate_gemma4(const GgufFile& file, Json& config) {
  for (const auto& [turning, head] : {std::pair{"rope.dimension_count", "attention.key_length"},
                                      {"rope.dimension_count_swa", "attention.key_length_swa"}})
    if (file.number_or(turning, file.number_or(head, 0)) != file.number_or(head, 0))
      return file.wrong(turning, "expected the whole head, " + std::string(head));
  config.set("layer_types",
             file.layer_types("attention.sliding_window_pattern", "sliding_attention", "full_attention"));
  std::array<bool, 2> seen = {};
  for (int l = 0; l < file.n_layers(); ++l) {
    const bool sliding = file.number_at("attention.sliding_window_pattern", l) != 0;
    const char* key = sliding ? "num_key_value_heads" : "num_global_key_value_heads";
    const Json heads(whole_number(file.number_at("attention.head_count_kv", l)));
    if (seen[sliding] && *config.find_value(key) != heads)
      return file.wrong("attention.head_count_kv", "expected one number of heads for all layers of a kind");
    seen[sliding] = true;
    config.set(key, heads);
    if (!sliding) config.set("attention_k_eq_v", !file.has("attn_v.weight", l));
  }
  file.copy("attention.key_length_swa", "head_dim", config);
  file.copy("attention.key_length", "global_head_dim", config);
  Json full{Json::Object{}}, sliding{Json::Object{}};
  file.copy("rope.freq_base", "rope_theta", full);
  file.copy("rope.freq_base_swa", "rope_theta", sliding);
  if (const Json* scaling = config.find_value("rope_scaling"))
    if (const Json* divisors = scaling->find_value("frequency_divisors")) full.set("frequency_divisors", *divisors);
  config.set("rope_parameters",
             Json::Object{{"full_attention", std::move(full)}, {"sliding_attention", std::move(sliding)}});
  config.set("rope_scaling", nullptr);
  config.set("partial_rotary_factor", 1);
  config.set("enable_moe_block", file.number_or("expert_count", 0) > 0);
  return {};
}

FamilyKeys gemma3_keys() {
  return {.defaults = {{"rms_norm_eps", 1e-6},
                       {"vocab_size", 262208},
                       {"num_attention_heads", 8},
                       {"num_key_value_heads", 4},
                       {"head_dim", 256},
                       {"max_position_embeddings", 131072},
                       {"sliding_window", 4096},
                       {"rope_theta", 1e6}}};
}

}  // namespace

extern const Family kGemma3Text = {.name = "gemma3_text",
                                   .architectures = {"Gemma3ForCausalLM"},
                                   .gguf_architecture = "gemma3",
                                   .read_config = read_gemma3,
                                   .keys = gemma3_keys(),
                                   .names = &kNames,
                                   .gguf_names = &kGguf,
                                   .translate_gguf = translate_gemma3};

extern const Family kGemma3 = {.name = "gemma3",
                               .architectures = {"Gemma3ForConditionalGeneration"},
                               .gguf_architecture = "",
                               .read_config = read_gemma3,
                               .keys = gemma3_keys(),
                               .names = &kNames};

extern const Family kGemma4 = {.name = "gemma4",
                               .architectures = {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"},
                               .gguf_architecture = "gemma4",
                               .read_config = read_gemma4,
                               .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"rope_theta", 1e6}}},
                               .names = &kNames,
                               .gguf_names = &kGguf,
                               .translate_gguf = translate_gemma4};

}  // namespace colibri::model
