// Granite 3 and 4 MoE: multipliers on embedding, residual branches, scores and logits; experts in fused tensors, and
// from granitemoeshared on a shared one. Granite 4 hybrids mix with Mamba-2 in most layers.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.router = "model.layers.{L}.block_sparse_moe.router.layer";
  n.stacked_gate_up = "model.layers.{L}.block_sparse_moe.input_linear";
  n.stacked_down = "model.layers.{L}.block_sparse_moe.output_linear";
  n.shared_gate_up = "model.layers.{L}.shared_mlp.input_linear";
  n.shared_down = "model.layers.{L}.shared_mlp.output_linear";
  n.mamba_in = "model.layers.{L}.mamba.in_proj";
  n.mamba_conv = "model.layers.{L}.mamba.conv1d";
  n.mamba_log_decay = "model.layers.{L}.mamba.A_log";
  n.mamba_skip = "model.layers.{L}.mamba.D";
  n.mamba_step_bias = "model.layers.{L}.mamba.dt_bias";
  n.mamba_norm = "model.layers.{L}.mamba.norm";
  n.mamba_out = "model.layers.{L}.mamba.out_proj";
  return n;
}

const TensorNames kNames = names();

ModelSpec read_model(ConfigReader& reader, std::string_view family) {
  ModelSpec spec = read_common(reader, family);
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.scale = static_cast<float>(reader.positive_or("attention_multiplier", static_cast<double>(a.scale)));
  spec.embedding_scale = static_cast<float>(reader.positive_or("embedding_multiplier", 1.0));
  spec.residual_scale = static_cast<float>(reader.positive_or("residual_multiplier", 1.0));
  spec.logit_scale = static_cast<float>(1.0 / reader.positive_or("logits_scaling", 1.0));
  spec.moe.expert_width = reader.size("intermediate_size");
  spec.moe.shared_width = reader.count_or("shared_intermediate_size", 0);
  spec.moe.router.n_experts = reader.size("num_local_experts", 65536);
  spec.moe.router.top_k = reader.size("num_experts_per_tok", spec.moe.router.n_experts);
  spec.moe.router.renormalise = true;
  all_layers_moe(spec);
  return spec;
}

void read_mamba(ConfigReader& reader, int hidden_size, MambaSpec& m) {
  m.n_heads = reader.size("mamba_n_heads", 65536);
  m.head_dim = reader.size("mamba_d_head", 65536);
  m.n_groups = reader.size("mamba_n_groups", m.n_heads);
  m.state_dim = reader.size("mamba_d_state", 65536);
  m.conv_kernel = reader.size("mamba_d_conv", compute::kMaxConvKernel);
  m.conv_bias = reader.flag_or("mamba_conv_bias", true);
  m.norm_groups = m.n_groups;
  reader.require_neutral("mamba_proj_bias", false);
  reader.read_limits("time_step_limit", m.min_step, m.max_step);
  if (reader.find("mamba_expand") != nullptr &&
      int64_t{reader.size("mamba_expand")} * hidden_size != int64_t{m.n_heads} * m.head_dim)
    reader.fail("mamba_expand", "times hidden_size is not mamba_n_heads * mamba_d_head");
}

Result<ModelSpec> read_plain(ConfigReader& reader) { return reader.finish(read_model(reader, "granitemoe")); }
Result<ModelSpec> read_shared(ConfigReader& reader) { return reader.finish(read_model(reader, "granitemoeshared")); }

Result<ModelSpec> read_hybrid(ConfigReader& reader) {
  ModelSpec spec = read_model(reader, "granitemoehybrid");
  read_mamba(reader, spec.hidden_size, spec.mamba);
  const std::string positions = reader.text_or("position_embedding_type", "rope");
  if (positions == "nope")
    spec.attentions[0].rope = -1;
  else if (positions != "rope")
    reader.fail_unsupported("position_embedding_type", "is \"" + positions + "\"");
  reader.require_value("normalization_function", "rmsnorm");
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  for (size_t l = 0; l < types.size(); ++l) {
    const bool attention = types[l] == "attention" || types[l] == "full_attention";
    if (!attention && types[l] != "mamba" && types[l] != "linear_attention")
      reader.fail_unsupported("layer_types", "holds \"" + types[l] + "\"; this family has attention and mamba");
    spec.layers[l].mixer = attention ? Mixer::kAttention : Mixer::kMamba;
  }
  return reader.finish(std::move(spec));
}

Status translate_plain(const GgufFile& file, Json& config) {
  file.copy("logit_scale", "logits_scaling", config);
  return {};
}

// Files without RoPE say so in the flag of a fine-tuned scaling.
Status translate_hybrid(const GgufFile& file, Json& config) {
  COLIBRI_TRY(translate_plain(file, config));
  const double heads = file.number_or("ssm.time_step_rank", 1);
  file.copy("ssm.time_step_rank", "mamba_n_heads", config);
  file.copy("ssm.group_count", "mamba_n_groups", config);
  file.copy("ssm.state_size", "mamba_d_state", config);
  file.copy("ssm.conv_kernel", "mamba_d_conv", config);
  config.set("mamba_d_head", file.number_or("ssm.inner_size", 0) / heads);
  config.set("layer_types", file.layer_types("attention.head_count_kv", "attention", "mamba"));
  const Json* tuned = file.find("rope.scaling.finetuned");
  config.set("position_embedding_type", tuned != nullptr && *tuned == Json(false) ? "nope" : "rope");
  return {};
}

}  // namespace

extern const Family kGraniteMoe = {.name = "granitemoe",
                                   .architectures = {"GraniteMoeForCausalLM"},
                                   .gguf_architecture = "granitemoe",
                                   .read_config = read_plain,
                                   .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"attention_multiplier", 1.0}},
                                            .synonyms = {{"num_local_experts", "num_experts"}}},
                                   .names = &kNames,
                                   .gguf_interleaves_qk = true,
                                   .translate_gguf = translate_plain};

extern const Family kGraniteMoeShared = {.name = "granitemoeshared",
                                         .architectures = {"GraniteMoeSharedForCausalLM"},
                                         .gguf_architecture = "",  // its files say granitemoe
                                         .read_config = read_shared,
                                         .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"attention_multiplier", 1.0}},
                                                  .synonyms = {{"num_local_experts", "num_experts"}}},
                                         .names = &kNames};

extern const Family kGraniteMoeHybrid = {
    .name = "granitemoehybrid",
    .architectures = {"GraniteMoeHybridForCausalLM"},
    .gguf_architecture = "granitehybrid",
    .read_config = read_hybrid,
    .keys = {.defaults = {{"rms_norm_eps", 1e-6}, {"attention_multiplier", 1.0}, {"position_embedding_type", "nope"}},
             .synonyms = {{"num_local_experts", "num_experts"}, {"layer_types", "layers_block_type"}}},
    .names = &kNames,
    .gguf_interleaves_qk = true,
    .translate_gguf = translate_hybrid};

}  // namespace colibri::model
