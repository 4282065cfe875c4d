// Qwen3-Next and Qwen3.5/3.6: three layers of Gated DeltaNet for each layer of gated attention; experts beside a gated
// shared one. Norm weights are stored minus one. The two differ in how their projections lie in the file.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames common_names() {
  TensorNames n = kHuggingFaceNames;
  n.q_gate = "model.layers.{L}.self_attn.q_proj";
  n.delta_qkv_conv = "model.layers.{L}.linear_attn.conv1d";
  n.delta_log_decay = "model.layers.{L}.linear_attn.A_log";
  n.delta_step_bias = "model.layers.{L}.linear_attn.dt_bias";
  n.delta_norm = "model.layers.{L}.linear_attn.norm";
  n.delta_output = "model.layers.{L}.linear_attn.out_proj";
  return n;
}

TensorNames next_names() {
  TensorNames n = common_names();
  n.delta_qkvz = "model.layers.{L}.linear_attn.in_proj_qkvz";
  n.delta_ba = "model.layers.{L}.linear_attn.in_proj_ba";
  return n;
}

TensorNames names_3_5() {
  TensorNames n = common_names();
  n.delta_qkv = "model.layers.{L}.linear_attn.in_proj_qkv";
  n.delta_z = "model.layers.{L}.linear_attn.in_proj_z";
  n.delta_b = "model.layers.{L}.linear_attn.in_proj_b";
  n.delta_a = "model.layers.{L}.linear_attn.in_proj_a";
  return n;
}

TensorNames gguf_names() {
  TensorNames n = kGgufNames;
  n.ffn_norm = "blk.{L}.post_attention_norm";
  n.q_gate = "blk.{L}.attn_q";
  return n;
}

const TensorNames kNextNames = next_names(), kNames3_5 = names_3_5(), kGguf = gguf_names();

void read_delta(ConfigReader& reader, ModelSpec& spec) {
  DeltaSpec& d = spec.delta;
  d.n_key_heads = reader.size("linear_num_key_heads", 4096);
  d.n_value_heads = reader.size("linear_num_value_heads", 4096);
  d.key_dim = reader.size("linear_key_head_dim", 4096);
  d.value_dim = reader.size("linear_value_head_dim", 4096);
  d.conv_kernel = reader.size("linear_conv_kernel_dim", compute::kMaxConvKernel);
  d.tiled_heads = reader.flag_or("linear_tiled_heads", false);  // written by the translation of GGUF metadata
  if (d.n_value_heads % d.n_key_heads != 0)
    reader.fail("linear_num_value_heads", "is no multiple of linear_num_key_heads");
  const int interval = reader.size_or("full_attention_interval", 4);
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  check_interval(reader, "full_attention_interval", interval, types);
  for (LayerSpec& layer : spec.layers) {
    const std::string type = types.empty()
                                 ? ((layer.number + 1) % interval == 0 ? "full_attention" : "linear_attention")
                                 : types[static_cast<size_t>(layer.number)];
    if (type != "full_attention" && type != "linear_attention")
      reader.fail_unsupported("layer_types",
                              "holds \"" + type + "\"; this family has full_attention and linear_attention");
    layer.mixer = type == "full_attention" ? Mixer::kAttention : Mixer::kDelta;
  }
}

ModelSpec read_model(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_common(reader, family);
  spec.norm_plus_one = true;
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.qk_norm = QkNorm::kPerHead;
  a.output_gate = OutputGate::kPerChannel;
  read_delta(reader, spec);
  spec.moe.expert_width = reader.size("moe_intermediate_size");
  spec.moe.shared_width = reader.size("shared_expert_intermediate_size");
  spec.moe.shared_gate = true;
  spec.moe.router.n_experts = reader.size("num_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = reader.flag_or("norm_topk_prob", true);
  return spec;
}

Result<ModelSpec> read_next(ConfigReader& reader) {
  ModelSpec spec = read_model(reader, "qwen3_next");
  read_sparse_layers(reader, spec, reader.size_or("intermediate_size", 1));
  return reader.finish(std::move(spec));
}

Result<ModelSpec> read_3_5(ConfigReader& reader) {
  ModelSpec spec = read_model(reader, "qwen3_5_moe");
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

Status translate_next(const GgufFile& file, Json& config) {
  const double heads = file.number_or("ssm.time_step_rank", 1);
  file.copy("ssm.group_count", "linear_num_key_heads", config);
  file.copy("ssm.time_step_rank", "linear_num_value_heads", config);
  file.copy("ssm.state_size", "linear_key_head_dim", config);
  file.copy("ssm.conv_kernel", "linear_conv_kernel_dim", config);
  config.set("linear_value_head_dim", file.number_or("ssm.inner_size", 0) / heads);
  if (file.find("attention.recurrent_layers") != nullptr)
    config.set("layer_types", file.layer_types("attention.recurrent_layers", "linear_attention", "full_attention"));
  file.copy("full_attention_interval", "full_attention_interval", config);
  return {};
}

// llama.cpp reorders the value heads of this architecture.
Status translate_3_5(const GgufFile& file, Json& config) {
  config.set("linear_tiled_heads", true);
  return translate_next(file, config);
}

}  // namespace

extern const Family kQwen3Next = {.name = "qwen3_next",
                                  .architectures = {"Qwen3NextForCausalLM"},
                                  .gguf_architecture = "qwen3next",
                                  .read_config = read_next,
                                  .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"partial_rotary_factor", 0.25}},
                                           .synonyms = {{"num_experts", "num_local_experts"}},
                                           .partial_rotary = true},
                                  .names = &kNextNames,
                                  .gguf_names = &kGguf,
                                  .translate_gguf = translate_next};

extern const Family kQwen3_5Moe = {.name = "qwen3_5_moe",
                                   .architectures = {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"},
                                   .gguf_architecture = "qwen35moe",
                                   .read_config = read_3_5,
                                   .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"partial_rotary_factor", 0.25}},
                                            .synonyms = {{"num_experts", "num_local_experts"}},
                                            .partial_rotary = true},
                                   .names = &kNames3_5,
                                   .gguf_names = &kGguf,
                                   .translate_gguf = translate_3_5};

}  // namespace colibri::model
