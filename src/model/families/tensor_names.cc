#include "model/families/family.h"

namespace colibri::model {

// Other files' names are made from these while the program starts, so these must be there before: constexpr.
constexpr TensorNames kHuggingFaceNames = {
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .attention_norm = "model.layers.{L}.input_layernorm",
    .ffn_norm = "model.layers.{L}.post_attention_layernorm",
    .q = "model.layers.{L}.self_attn.q_proj",
    .k = "model.layers.{L}.self_attn.k_proj",
    .v = "model.layers.{L}.self_attn.v_proj",
    .output = "model.layers.{L}.self_attn.o_proj",
    .q_norm = "model.layers.{L}.self_attn.q_norm",
    .k_norm = "model.layers.{L}.self_attn.k_norm",
    .q_down = "model.layers.{L}.self_attn.q_a_proj",
    .q_down_norm = "model.layers.{L}.self_attn.q_a_layernorm",
    .q_up = "model.layers.{L}.self_attn.q_b_proj",
    .kv_down = "model.layers.{L}.self_attn.kv_a_proj_with_mqa",
    .kv_down_norm = "model.layers.{L}.self_attn.kv_a_layernorm",
    .kv_up = "model.layers.{L}.self_attn.kv_b_proj",
    .index_q = "model.layers.{L}.self_attn.indexer.wq_b",
    .index_k = "model.layers.{L}.self_attn.indexer.wk",
    .index_k_norm = "model.layers.{L}.self_attn.indexer.k_norm",
    .index_weights = "model.layers.{L}.self_attn.indexer.weights_proj",
    .gate = "model.layers.{L}.mlp.gate_proj",
    .up = "model.layers.{L}.mlp.up_proj",
    .down = "model.layers.{L}.mlp.down_proj",
    .router = "model.layers.{L}.mlp.gate",
    .choice_bias = "model.layers.{L}.mlp.gate.e_score_correction_bias",
    .expert_gate = "model.layers.{L}.mlp.experts.{E}.gate_proj",
    .expert_up = "model.layers.{L}.mlp.experts.{E}.up_proj",
    .expert_down = "model.layers.{L}.mlp.experts.{E}.down_proj",
    .stacked_gate_up = "model.layers.{L}.mlp.experts.gate_up_proj",
    .stacked_down = "model.layers.{L}.mlp.experts.down_proj",
    .shared_gate = "model.layers.{L}.mlp.shared_expert.gate_proj",
    .shared_up = "model.layers.{L}.mlp.shared_expert.up_proj",
    .shared_down = "model.layers.{L}.mlp.shared_expert.down_proj",
    .shared_router = "model.layers.{L}.mlp.shared_expert_gate",
};

namespace {

constexpr TensorNames deepseek_names() {
  TensorNames n = kHuggingFaceNames;
  n.shared_gate = "model.layers.{L}.mlp.shared_experts.gate_proj";
  n.shared_up = "model.layers.{L}.mlp.shared_experts.up_proj";
  n.shared_down = "model.layers.{L}.mlp.shared_experts.down_proj";
  return n;
}

constexpr TensorNames mixtral_names() {
  TensorNames n = kHuggingFaceNames;
  n.router = "model.layers.{L}.block_sparse_moe.gate";
  n.expert_gate = "model.layers.{L}.block_sparse_moe.experts.{E}.w1";
  n.expert_up = "model.layers.{L}.block_sparse_moe.experts.{E}.w3";
  n.expert_down = "model.layers.{L}.block_sparse_moe.experts.{E}.w2";
  return n;
}

}  // namespace

constexpr TensorNames kDeepseekNames = deepseek_names();
constexpr TensorNames kMixtralNames = mixtral_names();

constexpr TensorNames kGgufNames = {
    .embed = "token_embd",
    .final_norm = "output_norm",
    .head = "output",
    .attention_norm = "blk.{L}.attn_norm",
    .attention_post_norm = "blk.{L}.post_attention_norm",
    .ffn_norm = "blk.{L}.ffn_norm",
    .ffn_post_norm = "blk.{L}.post_ffw_norm",
    .q = "blk.{L}.attn_q",
    .k = "blk.{L}.attn_k",
    .v = "blk.{L}.attn_v",
    .output = "blk.{L}.attn_output",
    .gate_attention = "blk.{L}.attn_gate",
    .q_norm = "blk.{L}.attn_q_norm",
    .k_norm = "blk.{L}.attn_k_norm",
    .sinks = "blk.{L}.attn_sinks",
    .q_down = "blk.{L}.attn_q_a",
    .q_down_norm = "blk.{L}.attn_q_a_norm",
    .q_up = "blk.{L}.attn_q_b",
    .kv_down = "blk.{L}.attn_kv_a_mqa",
    .kv_down_norm = "blk.{L}.attn_kv_a_norm",
    .kv_up = "blk.{L}.attn_kv_b",
    .key_up = "blk.{L}.attn_k_b",
    .value_up = "blk.{L}.attn_v_b",
    .index_q = "blk.{L}.indexer.attn_q_b",
    .index_k = "blk.{L}.indexer.attn_k",
    .index_k_norm = "blk.{L}.indexer.k_norm",
    .index_weights = "blk.{L}.indexer.proj",
    .delta_q = "blk.{L}.attn_q",
    .delta_k = "blk.{L}.attn_k",
    .delta_v = "blk.{L}.attn_v",
    .delta_z = "blk.{L}.attn_gate",
    .delta_b = "blk.{L}.ssm_beta",
    .delta_a = "blk.{L}.ssm_alpha",
    .delta_qkv = "blk.{L}.attn_qkv",
    .delta_qkvz = "blk.{L}.ssm_in",
    .delta_ba = "blk.{L}.ssm_ba",
    .delta_qkv_conv = "blk.{L}.ssm_conv1d",
    .delta_decay = "blk.{L}.ssm_a",
    .delta_step_bias = "blk.{L}.ssm_dt.bias",
    .delta_norm = "blk.{L}.ssm_norm",
    .delta_output = "blk.{L}.ssm_out",
    .mamba_in = "blk.{L}.ssm_in",
    .mamba_conv = "blk.{L}.ssm_conv1d",
    .mamba_decay = "blk.{L}.ssm_a",
    .mamba_skip = "blk.{L}.ssm_d",
    .mamba_step_bias = "blk.{L}.ssm_dt.bias",
    .mamba_norm = "blk.{L}.ssm_norm",
    .mamba_out = "blk.{L}.ssm_out",
    .conv_in = "blk.{L}.shortconv.in_proj",
    .conv = "blk.{L}.shortconv.conv",
    .conv_out = "blk.{L}.shortconv.out_proj",
    .gate = "blk.{L}.ffn_gate",
    .up = "blk.{L}.ffn_up",
    .down = "blk.{L}.ffn_down",
    .router = "blk.{L}.ffn_gate_inp",
    .choice_bias = "blk.{L}.exp_probs_b",
    .expert_gate = "blk.{L}.ffn_gate.{E}",
    .expert_up = "blk.{L}.ffn_up.{E}",
    .expert_down = "blk.{L}.ffn_down.{E}",
    .stacked_gate = "blk.{L}.ffn_gate_exps",
    .stacked_up = "blk.{L}.ffn_up_exps",
    .stacked_gate_up = "blk.{L}.ffn_gate_up_exps",
    .stacked_down = "blk.{L}.ffn_down_exps",
    .stacked_down_bias = "blk.{L}.ffn_down_exps",
    .shared_gate = "blk.{L}.ffn_gate_shexp",
    .shared_up = "blk.{L}.ffn_up_shexp",
    .shared_down = "blk.{L}.ffn_down_shexp",
    .shared_router = "blk.{L}.ffn_gate_inp_shexp",
};

}  // namespace colibri::model
