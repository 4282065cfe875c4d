// Nemotron-H: every layer is one block, Mamba-2, attention without RoPE, a dense MLP or experts; MLPs are squared ReLUs
// without a gate.
#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames names() {
  TensorNames n = kHuggingFaceNames;
  n.embed = "backbone.embeddings";
  n.final_norm = "backbone.norm_f";
  n.attention_norm = "backbone.layers.{L}.norm";
  n.ffn_norm = "backbone.layers.{L}.norm";
  n.q = "backbone.layers.{L}.mixer.q_proj";
  n.k = "backbone.layers.{L}.mixer.k_proj";
  n.v = "backbone.layers.{L}.mixer.v_proj";
  n.output = "backbone.layers.{L}.mixer.o_proj";
  n.mamba_in = "backbone.layers.{L}.mixer.in_proj";
  n.mamba_conv = "backbone.layers.{L}.mixer.conv1d";
  n.mamba_log_decay = "backbone.layers.{L}.mixer.A_log";
  n.mamba_skip = "backbone.layers.{L}.mixer.D";
  n.mamba_step_bias = "backbone.layers.{L}.mixer.dt_bias";
  n.mamba_norm = "backbone.layers.{L}.mixer.norm";
  n.mamba_out = "backbone.layers.{L}.mixer.out_proj";
  n.up = "backbone.layers.{L}.mixer.up_proj";
  n.down = "backbone.layers.{L}.mixer.down_proj";
  n.router = "backbone.layers.{L}.mixer.gate";
  n.choice_bias = "backbone.layers.{L}.mixer.gate.e_score_correction_bias";
  n.expert_up = "backbone.layers.{L}.mixer.experts.{E}.up_proj";
  n.expert_down = "backbone.layers.{L}.mixer.experts.{E}.down_proj";
  n.stacked_gate_up = nullptr;
  n.stacked_down = nullptr;
  n.shared_up = "backbone.layers.{L}.mixer.shared_experts.up_proj";
  n.shared_down = "backbone.layers.{L}.mixer.shared_experts.down_proj";
  return n;
}

TensorNames gguf_names() {
  TensorNames n = kGgufNames;
  n.ffn_norm = "blk.{L}.attn_norm";
  return n;
}

const TensorNames kNames = names(), kGguf = gguf_names();

void read_mamba(ConfigReader& reader, MambaSpec& m) {
  m.n_heads = reader.size("mamba_num_heads", 65536);
  m.head_dim = reader.size("mamba_head_dim", 65536);
  m.n_groups = reader.size("n_groups", m.n_heads);
  m.state_dim = reader.size("ssm_state_size", 65536);
  m.conv_kernel = reader.size("conv_kernel", compute::kMaxConvKernel);
  m.conv_bias = reader.flag_or("use_conv_bias", true);
  m.norm_groups = m.n_groups;
  reader.require_value("mamba_hidden_act", "silu");
  for (const char* key : {"mamba_proj_bias", "use_bias"}) reader.require_neutral(key, false);
  // transformers 5.24 takes time_step_min for the bound, whatever time_step_limit says; llama.cpp has none.
  if (!reader.from_gguf()) m.min_step = static_cast<float>(reader.number_or("time_step_min", 0.001));
}

// M: Mamba-2, *: attention, -: dense MLP, E: experts.
std::string block_pattern(ConfigReader& reader, const ModelSpec& spec) {
  std::string pattern = reader.text_or("hybrid_override_pattern", "");
  for (const std::string& type : read_layer_types(reader, spec.n_layers(), "layers_block_type"))
    pattern += type == "mamba" || type == "linear_attention"     ? 'M'
               : type == "attention" || type == "full_attention" ? '*'
               : type == "moe"                                   ? 'E'
               : type == "mlp"                                   ? '-'
                                                                 : '?';
  if (pattern.size() != spec.layers.size() || pattern.find_first_not_of("M*-E") != std::string::npos)
    reader.fail("hybrid_override_pattern", "must name M, *, - or E for each of the " + std::to_string(spec.n_layers()) +
                                               " layers, is \"" + pattern.substr(0, 200) + "\"");
  return pattern;
}

void read_router(ConfigReader& reader, ModelSpec& spec) {
  read_deepseek_router(reader, spec);
  spec.moe.shared_width =
      reader.count_or("n_shared_experts", 0) > 0 ? reader.size("moe_shared_expert_intermediate_size") : 0;
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "nemotron_h", "num_hidden_layers", "layer_norm_epsilon");
  spec.activation.kind = compute::ActivationKind::kRelu2;
  reader.require_value("mlp_hidden_act", "relu2");
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  a.rope = -1;
  reader.require_neutral("sliding_window", nullptr);
  const std::string pattern = block_pattern(reader, spec);
  if (pattern.find('M') != std::string::npos) read_mamba(reader, spec.mamba);
  if (pattern.find('E') != std::string::npos) read_router(reader, spec);
  const int width = reader.size_or("intermediate_size", 1);
  for (size_t l = 0; l < spec.layers.size() && l < pattern.size(); ++l) {
    LayerSpec& layer = spec.layers[l];
    layer.mixer = pattern[l] == 'M' ? Mixer::kMamba : pattern[l] == '*' ? Mixer::kAttention : Mixer::kNone;
    layer.moe = pattern[l] == 'E';
    layer.dense_width = pattern[l] == '-' ? width : 0;
  }
  return reader.finish(std::move(spec));
}

Status translate_gguf(const GgufFile& file, Json& config) {
  const double heads = file.number_or("ssm.time_step_rank", 1);
  file.copy("ssm.time_step_rank", "mamba_num_heads", config);
  file.copy("ssm.group_count", "n_groups", config);
  file.copy("ssm.state_size", "ssm_state_size", config);
  file.copy("ssm.conv_kernel", "conv_kernel", config);
  config.set("mamba_head_dim", file.number_or("ssm.inner_size", 0) / heads);
  std::string pattern;
  for (int l = 0; l < file.n_layers(); ++l)
    pattern += file.has("ffn_gate_inp.weight", l) ? 'E'
               : file.has("ffn_up.weight", l)     ? '-'
               : file.has("ssm_in.weight", l)     ? 'M'
                                                  : '*';
  config.set("hybrid_override_pattern", pattern);
  config.set("partial_rotary_factor", 1);
  return {};
}

}  // namespace

extern const Family kNemotronH = {
    .name = "nemotron_h",
    .architectures = {"NemotronHForCausalLM"},
    .gguf_architecture = "nemotron_h_moe",
    .read_config = read_config,
    .keys = {.defaults = {{"layer_norm_epsilon", 1e-5}, {"time_step_min", 0.001}},
             .synonyms = {{"time_step_min", "mamba_dt_min"},
                          {"n_routed_experts", "num_local_experts"},
                          {"layers_block_type", "layer_types"}},
             .unused = {"expand", "time_step_limit", "mamba_dt_limit", "mamba_dt_init_floor", "rope_theta"}},
    .names = &kNames,
    .gguf_names = &kGguf,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model
