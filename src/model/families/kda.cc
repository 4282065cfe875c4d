// Kimi-Linear and Ling 3 (Bailing hybrid): Kimi Delta Attention in most layers, latent attention in the others,
// DeepSeek-V3 routing. Kimi's latent layers have no RoPE; Ling's have a gate per head, and its decay is bounded.
#include <algorithm>

#include "model/families/family.h"

namespace colibri::model {
namespace {

TensorNames kimi_names() {
  TensorNames n = kMixtralNames;
  n.delta_q = "model.layers.{L}.self_attn.q_proj";
  n.delta_k = "model.layers.{L}.self_attn.k_proj";
  n.delta_v = "model.layers.{L}.self_attn.v_proj";
  n.delta_q_conv = "model.layers.{L}.self_attn.q_conv1d";
  n.delta_k_conv = "model.layers.{L}.self_attn.k_conv1d";
  n.delta_v_conv = "model.layers.{L}.self_attn.v_conv1d";
  n.delta_z_down = "model.layers.{L}.self_attn.g_a_proj";
  n.delta_z = "model.layers.{L}.self_attn.g_b_proj";
  n.delta_a_down = "model.layers.{L}.self_attn.f_a_proj";
  n.delta_a = "model.layers.{L}.self_attn.f_b_proj";
  n.delta_b = "model.layers.{L}.self_attn.b_proj";
  n.delta_log_decay = "model.layers.{L}.self_attn.A_log";
  n.delta_step_bias = "model.layers.{L}.self_attn.dt_bias";
  n.delta_norm = "model.layers.{L}.self_attn.o_norm";
  n.delta_output = "model.layers.{L}.self_attn.o_proj";
  n.choice_bias = "model.layers.{L}.block_sparse_moe.gate.e_score_correction_bias";
  n.shared_gate = "model.layers.{L}.block_sparse_moe.shared_experts.gate_proj";
  n.shared_up = "model.layers.{L}.block_sparse_moe.shared_experts.up_proj";
  n.shared_down = "model.layers.{L}.block_sparse_moe.shared_experts.down_proj";
  return n;
}

TensorNames bailing_names() {
  TensorNames n = kDeepseekNames;
  n.embed = "model.word_embeddings";
  n.q = "model.layers.{L}.attention.q_proj";
  n.q_down = "model.layers.{L}.attention.q_a_proj";
  n.q_down_norm = "model.layers.{L}.attention.q_a_layernorm";
  n.q_up = "model.layers.{L}.attention.q_b_proj";
  n.kv_down = "model.layers.{L}.attention.kv_a_proj_with_mqa";
  n.kv_down_norm = "model.layers.{L}.attention.kv_a_layernorm";
  n.kv_up = "model.layers.{L}.attention.kv_b_proj";
  n.gate_attention = "model.layers.{L}.attention.g_proj";
  n.output = "model.layers.{L}.attention.dense";
  n.delta_q = "model.layers.{L}.attention.q_proj";
  n.delta_k = "model.layers.{L}.attention.k_proj";
  n.delta_v = "model.layers.{L}.attention.v_proj";
  n.delta_q_conv = "model.layers.{L}.attention.q_conv1d";
  n.delta_k_conv = "model.layers.{L}.attention.k_conv1d";
  n.delta_v_conv = "model.layers.{L}.attention.v_conv1d";
  n.delta_z = "model.layers.{L}.attention.g_proj";
  n.delta_a = "model.layers.{L}.attention.f_proj";
  n.delta_b = "model.layers.{L}.attention.b_proj";
  n.delta_log_decay = "model.layers.{L}.attention.A_log";
  n.delta_step_bias = "model.layers.{L}.attention.dt_bias";
  n.delta_norm = "model.layers.{L}.attention.o_norm";
  n.delta_output = "model.layers.{L}.attention.dense";
  n.choice_bias = "model.layers.{L}.mlp.gate.expert_bias";
  return n;
}

TensorNames kimi_gguf_names() {
  TensorNames n = kGgufNames;
  n.delta_q_conv = "blk.{L}.ssm_conv1d_q";
  n.delta_k_conv = "blk.{L}.ssm_conv1d_k";
  n.delta_v_conv = "blk.{L}.ssm_conv1d_v";
  n.delta_z_down = "blk.{L}.ssm_g_a";
  n.delta_z = "blk.{L}.ssm_g_b";
  n.delta_a_down = "blk.{L}.ssm_f_a";
  n.delta_a = "blk.{L}.ssm_f_b";
  n.delta_output = "blk.{L}.attn_output";
  return n;
}

const TensorNames kKimiNames = kimi_names(), kBailingNames = bailing_names(), kKimiGguf = kimi_gguf_names();

void read_router(ConfigReader& reader, ModelSpec& spec) {
  MoeSpec& moe = spec.moe;
  moe.expert_width = reader.size("moe_intermediate_size");
  moe.shared_width = read_shared_width(reader, "num_shared_experts", moe.expert_width);
  moe.choice_bias = true;
  reader.require_value("moe_router_activation_func", "sigmoid");
  reader.require_value("moe_layer_freq", 1);
  compute::RouterParams& router = moe.router;
  router.kind = compute::RouterKind::kSigmoid;
  router.n_experts = reader.size("num_experts", 65536);
  router.top_k = reader.size("num_experts_per_token", router.n_experts);
  router.renormalise = reader.flag_or("moe_renormalize", true);
  router.sum_offset = 1e-20f;
  router.scale = static_cast<float>(reader.positive_or("routed_scaling_factor", 1.0));
  router.group_score = compute::GroupScore::kTwoLargest;
  read_groups(reader, router, "num_expert_group");
  first_layers_dense(spec, reader.count_or("first_k_dense_replace", 0), reader.size("intermediate_size"));
}

DeltaSpec delta_of(int heads, int head_dim, int kernel, DeltaDecay decay) {
  DeltaSpec d;
  d.n_key_heads = d.n_value_heads = heads;
  d.key_dim = d.value_dim = head_dim;
  d.conv_kernel = kernel;
  d.decay = decay;
  d.sigmoid_gate = true;
  return d;
}

// kda_layers and full_attn_layers count from 1 and share the layers between them.
void read_kinds_of_layers(ConfigReader& block, ModelSpec& spec) {
  std::vector<int> times(spec.layers.size(), 0);
  for (const auto& [key, mixer] : {std::pair{"full_attn_layers", Mixer::kAttention}, {"kda_layers", Mixer::kDelta}})
    for (const int layer : block.layers_or_empty(key, spec.n_layers() + 1)) {
      if (layer == 0) block.fail(key, "names layer 0, but counts from 1");
      if (layer == 0) continue;
      spec.layers[static_cast<size_t>(layer - 1)].mixer = mixer;
      ++times[static_cast<size_t>(layer - 1)];
    }
  const auto wrong = std::find_if(times.begin(), times.end(), [](int n) { return n != 1; });
  if (wrong != times.end())
    block.fail("kda_layers", "and \"full_attn_layers\" name layer " + std::to_string(wrong - times.begin() + 1) + " " +
                                 std::to_string(*wrong) + " times, expected one");
}

Result<ModelSpec> read_kimi(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "kimi_linear");
  read_latent_attention(reader, spec);
  if (reader.flag_or("mla_use_nope", true)) spec.attentions[0].rope = -1;
  static const Json kEmpty{Json::Object{}};
  const Json* linear = reader.find("linear_attn_config");
  ConfigReader block = reader.block(linear != nullptr && linear->is_object() ? *linear : kEmpty, "linear_attn_config");
  const int head_dim = block.size("head_dim", 4096);
  spec.delta = delta_of(block.size("num_heads", 4096), head_dim,
                        block.size("short_conv_kernel_size", compute::kMaxConvKernel), DeltaDecay::kPerChannel);
  spec.delta.gate_rank = head_dim;
  read_kinds_of_layers(block, spec);
  reader.take(block.finish_block());
  read_router(reader, spec);
  return reader.finish(std::move(spec));
}

Result<ModelSpec> read_bailing(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "bailing_hybrid");
  read_latent_attention(reader, spec);
  spec.attentions[0].output_gate = OutputGate::kPerHead;
  const bool bounded = reader.flag_or("kda_safe_gate", true);
  const int head_dim =
      reader.find("linear_head_dim") != nullptr ? reader.size("linear_head_dim", 4096) : reader.size("head_dim", 4096);
  spec.delta = delta_of(reader.size_or("linear_num_heads", spec.attentions[0].n_heads, 4096), head_dim,
                        reader.size("linear_conv_kernel_dim", compute::kMaxConvKernel),
                        bounded ? DeltaDecay::kBoundedChannel : DeltaDecay::kPerChannel);
  if (bounded) spec.delta.lower_bound = static_cast<float>(reader.number_or("kda_lower_bound", -5.0));
  if (bounded && spec.delta.lower_bound >= 0) reader.fail("kda_lower_bound", "must be negative");
  const int group = reader.size_or("layer_group_size", 4);
  const std::vector<std::string> types = read_layer_types(reader, spec.n_layers());
  check_interval(reader, "layer_group_size", group, types);
  for (LayerSpec& layer : spec.layers) {
    const bool full =
        types.empty() ? (layer.number + 1) % group == 0 : types[static_cast<size_t>(layer.number)] == "full_attention";
    layer.mixer = full ? Mixer::kAttention : Mixer::kDelta;
  }
  for (const char* key : {"moe_router_enable_expert_bias", "no_kda_lora"}) reader.require_value(key, true);
  reader.require_value("gated_attention_proj_granularity_type", "head_wise");
  if (reader.find("moe_shared_expert_intermediate_size") != nullptr)
    reader.require_value("moe_shared_expert_intermediate_size", reader.size("moe_intermediate_size"));
  read_router(reader, spec);
  return reader.finish(std::move(spec));
}

Status translate_kimi(const GgufFile& file, Json& config) {
  Json linear{Json::Object{}};
  file.copy("kda.head_dim", "head_dim", linear);
  file.copy("attention.head_count", "num_heads", linear);
  file.copy("ssm.conv_kernel", "short_conv_kernel_size", linear);
  Json::Array kda, full;
  for (int l = 0; l < file.n_layers(); ++l)
    (file.number_at("attention.head_count_kv", l) == 0 ? kda : full).emplace_back(int64_t{l} + 1);
  linear.set("kda_layers", std::move(kda));
  linear.set("full_attn_layers", std::move(full));
  config.set("linear_attn_config", std::move(linear));
  return {};
}

}  // namespace

extern const Family kKimiLinear = {
    .name = "kimi_linear",
    .architectures = {"KimiLinearForCausalLM"},
    .gguf_architecture = "kimi-linear",
    .read_config = read_kimi,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"routed_scaling_factor", 2.446}, {"first_k_dense_replace", 1}},
             .synonyms = {{"moe_renormalize", "norm_topk_prob"},
                          {"num_expert_group", "n_group"},
                          {"num_experts", "num_local_experts"},
                          {"num_experts_per_token", "num_experts_per_tok"},
                          {"num_shared_experts", "n_shared_experts"},
                          {"model_max_length", "max_position_embeddings"}},
             .unused = {"use_grouped_topk"}},
    .names = &kKimiNames,
    .gguf_names = &kKimiGguf,
    .translate_gguf = translate_kimi};

extern const Family kBailingHybrid = {
    .name = "bailing_hybrid",
    .architectures = {"BailingHybridForCausalLM", "BailingMoeV3ForCausalLM"},
    .gguf_architecture = "",
    .read_config = read_bailing,
    .keys = {.defaults = {{"rms_norm_eps", 1e-6},
                          {"rope_theta", 6e6},
                          {"routed_scaling_factor", 2.5},
                          {"num_expert_group", 8},
                          {"topk_group", 4},
                          {"layer_group_size", 6},
                          {"first_k_dense_replace", 2}},
             .synonyms = {{"moe_renormalize", "norm_topk_prob"},
                          {"num_expert_group", "n_group"},
                          {"num_experts", "num_local_experts"},
                          {"num_experts_per_token", "num_experts_per_tok"},
                          {"num_shared_experts", "n_shared_experts"},
                          {"model_max_length", "max_position_embeddings"},
                          {"num_nextn_predict_layers", "num_mtp_layers"},
                          {"moe_router_activation_func", "score_function"},
                          {"linear_conv_kernel_dim", "short_conv_kernel_size"}},
             .unused = {"group_norm_size", "moe_router_enable_routed_scaling", "moe_router_enable_shared_expert"}},
    .names = &kBailingNames};

}  // namespace colibri::model
