// What is known about config keys that a family does not read: those that change nothing in any family's forward pass,
// and those that must say what the family does anyway.
#include <algorithm>
#include <array>
#include <cmath>

#include "model/families/config.h"

namespace colibri::model {
namespace {

// Training, generation, tokens, bookkeeping, placement on devices, other modalities.
constexpr std::string_view kFree =
    " add_classification_head architectures auto_map aux_loss_alpha bad_words_ids begin_suppress_tokens bos_token"
    " cache_implementation chunk_size chunk_size_feed_forward class_num classifier_activation compression_config"
    " compression_ratio decoder_start_token_id diversity_penalty do_sample dtype early_stopping embd_pdrop"
    " encoder_no_repeat_ngram_size eos_token ep_size exponential_decay_length_penalty finetuning_task"
    " for_llm_compressor forced_bos_token_id forced_eos_token_id freeze_language_model fuse_linear fuse_rms_norm"
    " fuse_rope fuse_swiglu generation_config gguf global_aux_loss gradient_checkpointing id2label init_method"
    " init_std initial_context_length initializer_range input_jitter_noise intermediate_size is_decoder"
    " is_llama_config keys_to_ignore_at_inference label2id language length_penalty license load_balance_coeff"
    " logits_to_keep mamba_chunk_size mask_init_id max_image_size max_length max_model_len max_position_embeddings"
    " max_seq_len max_seq_length max_sequence_length max_window_layers min_length mm_tokens_per_image"
    " model_max_length model_name model_type moe_aux_loss_coeff moe_capacity moe_drop_tokens"
    " moe_shared_expert_overlap mtp name_or_path no_repeat_ngram_size num_beam_groups num_beams num_labels"
    " num_logits_to_keep num_media_embeds num_mtp_modules num_nextn_predict_layers num_return_sequences"
    " org_vocab_size original_max_position_embeddings output_attentions output_hidden_states output_router_logits"
    " output_scores pad_token pool_type prefix pretraining_sequence_length pretraining_tp problem_type"
    " quantization_config remove_invalid_values repetition_penalty rescale_prenorm_residual resid_pdrop"
    " residual_in_fp32 return_dict return_dict_in_generate router_jitter_noise router_z_loss_coef sep_token seq_aux"
    " seq_length suppress_tokens task_specific_params temperature text_config tf_legacy_loss time_step_floor"
    " time_step_max tokenizer_class top_k top_p torch_dtype torchscript training_args transformers_version typical_p"
    " use_bfloat16 use_cache use_flash_attention use_grouped_mm use_mamba_kernels use_mtp use_return_dict"
    " vocab_size_per_layer_input ";

constexpr auto kFreeBeginnings = std::to_array<std::string_view>(
    {"_", "transformers.", "anyres_", "audio_", "boa_", "boi_", "eoa_", "eoi_", "image_", "mtp_", "num_mtp_", "pad_",
     "video_", "vision_", "vit_", "speech_", "unsloth_", "quantization_"});

constexpr auto kFreeEndings = std::to_array<std::string_view>(
    {"_token_id",   "_token_ids",         "_token_index",    "_end_id",       "_start_id",
     "_newline_id", "_dropout",           "dropout",         "_dropout_prob", "_pdrop",
     "_dtype",      "_loss_coef",         "_loss_lambda",    "_loss_weight",  "_loss_scaling_factor",
     "_init_std",   "_initializer_range", "_implementation", "_version",      "_path",
     "_name",       "_template",          "_license",        "_date",         "_author",
     "_description"});

bool same_number(const Json& value, double expected) {
  return value.is_number() && static_cast<float>(value.as_double()) == static_cast<float>(expected);
}

bool is_flag(const Json& value, bool expected) { return value.is_bool() && value.as_bool() == expected; }

template <size_t N>
bool is_one_of(const Json& value, const std::array<std::string_view, N>& names) {
  return value.is_string() && std::find(names.begin(), names.end(), value.as_string()) != names.end();
}

// What a spec says, as configs would.

const AttentionSpec& first(const ModelSpec& spec) { return spec.attentions.front(); }

bool has_experts(const ModelSpec& spec) { return spec.n_moe_layers() > 0; }

bool turns(const ModelSpec& spec) { return first(spec).rope >= 0; }

bool says_activation(const Json& value, const ModelSpec& spec) {
  switch (spec.activation.kind) {
    case compute::ActivationKind::kGeluTanh:
      return is_one_of(value, std::array<std::string_view, 3>{"gelu_pytorch_tanh", "gelu_tanh", "gelu_new"});
    case compute::ActivationKind::kRelu2:
      return is_one_of(value, std::array<std::string_view, 1>{"relu2"});
    default:
      return is_one_of(value, std::array<std::string_view, 2>{"silu", "swish"});
  }
}

bool says_qk_norm(const Json& value, const ModelSpec& spec) {
  const auto& all = spec.attentions;
  return is_flag(value, std::any_of(all.begin(), all.end(), [](const auto& a) { return a.qk_norm != QkNorm::kNone; }));
}

bool says_qkv_bias(const Json& value, const ModelSpec& spec) { return is_flag(value, first(spec).qkv_bias); }
bool says_mlp_bias(const Json& value, const ModelSpec& spec) { return is_flag(value, spec.mlp_bias); }

bool says_renormalise(const Json& value, const ModelSpec& spec) {
  return !has_experts(spec) || is_flag(value, spec.moe.router.renormalise);
}

bool says_scores(const Json& value, const ModelSpec& spec) {
  constexpr std::array<std::string_view, 4> kNames = {"softmax", "sigmoid", "sqrtsoftplus", "sparsemixer"};
  return !has_experts(spec) || value == Json(kNames[static_cast<size_t>(spec.moe.router.kind)]);
}

bool says_choice(const Json& value, const ModelSpec& spec) {
  return !has_experts(spec) || value == Json(spec.moe.choice_bias ? "noaux_tc" : "greedy");
}

bool says_experts(const Json& value, const ModelSpec& spec) {
  return same_number(value, has_experts(spec) ? spec.moe.n_stored() : 0);
}

bool says_top_k(const Json& value, const ModelSpec& spec) {
  return same_number(value, has_experts(spec) ? spec.moe.router.top_k : 0);
}

bool says_groups(const Json& value, const ModelSpec& spec) {
  return is_off(value) || same_number(value, spec.moe.router.n_groups);
}

bool says_top_groups(const Json& value, const ModelSpec& spec) {
  return is_off(value) || same_number(value, spec.moe.router.top_groups);
}

bool says_scale(const Json& value, const ModelSpec& spec) {
  return is_off(value) || same_number(value, static_cast<double>(spec.moe.router.scale));
}

bool says_expert_width(const Json& value, const ModelSpec& spec) {
  return same_number(value, has_experts(spec) ? spec.moe.expert_width : 0);
}

bool says_head_dim(const Json& value, const ModelSpec& spec) { return same_number(value, first(spec).head_dim); }
bool says_value_dim(const Json& value, const ModelSpec& spec) { return same_number(value, first(spec).value_dim); }

bool says_attention_scale(const Json& value, const ModelSpec& spec) {
  return same_number(value, static_cast<double>(first(spec).scale));
}

bool says_norm_eps(const Json& value, const ModelSpec& spec) {
  return same_number(value, static_cast<double>(spec.norm_eps));
}

bool says_norm(const Json& value, const ModelSpec& spec) {
  if (spec.layer_norm) return is_one_of(value, std::array<std::string_view, 2>{"layernorm", "layer_norm"});
  return is_one_of(value, std::array<std::string_view, 4>{"rms", "rmsnorm", "rms_norm", "RMSNorm"});
}

bool says_output_gate(const Json& value, const ModelSpec& spec) {
  return is_flag(value, first(spec).output_gate != OutputGate::kNone);
}

bool says_interleaved(const Json& value, const ModelSpec& spec) {
  return is_flag(value, spec.ropes.front().interleaved);
}

bool says_indexer_interleaved(const Json& value, const ModelSpec& spec) {
  return is_flag(value, first(spec).indexer.interleaved);
}

bool says_rope(const Json& value, const ModelSpec& spec) { return is_flag(value, turns(spec)); }

bool says_positions(const Json& value, const ModelSpec& spec) {
  if (!turns(spec)) return value == Json("nope");
  return is_one_of(value, std::array<std::string_view, 2>{"rope", "rotary"});
}

bool says_window(const Json& value, const ModelSpec& spec) {
  return is_off(value) || (value.is_number() && value.as_double() >= static_cast<double>(spec.context));
}

bool says_mlp_types(const Json& value, const ModelSpec& spec) {
  if (!value.is_array() || value.as_array().size() != spec.layers.size()) return false;
  for (size_t l = 0; l < spec.layers.size(); ++l)
    if (value.as_array()[l] != Json(spec.layers[l].moe ? "sparse" : "dense")) return false;
  return true;
}

// One for each layer that turns, or has plain attention.
bool says_all_ones(const Json& value, const ModelSpec&) {
  if (!value.is_array()) return is_off(value) || value == Json(1);
  const auto& items = value.as_array();
  return std::all_of(items.begin(), items.end(), [](const Json& item) { return same_number(item, 1); });
}

bool is_one(const Json& value, const ModelSpec&) { return is_off(value) || same_number(value, 1); }
bool is_true(const Json& value, const ModelSpec&) { return is_flag(value, true); }
bool is_false(const Json& value, const ModelSpec&) { return is_off(value); }

struct Meaning {
  std::string_view key;
  bool (*says)(const Json& value, const ModelSpec& spec);
};

constexpr auto kMeanings = std::to_array<Meaning>({
    {"hidden_act", says_activation},
    {"hidden_activation", says_activation},
    {"activation_function", says_activation},
    {"mlp_hidden_act", says_activation},
    {"use_qk_norm", says_qk_norm},
    {"qk_norm", says_qk_norm},
    {"qk_layernorm", says_qk_norm},
    {"use_qk_layernorm", says_qk_norm},
    {"attention_bias", says_qkv_bias},
    {"qkv_bias", says_qkv_bias},
    {"use_qkv_bias", says_qkv_bias},
    {"mlp_bias", says_mlp_bias},
    {"norm_topk_prob", says_renormalise},
    {"route_norm", says_renormalise},
    {"moe_renormalize", says_renormalise},
    {"scoring_func", says_scores},
    {"score_func", says_scores},
    {"score_function", says_scores},
    {"moe_router_activation_func", says_scores},
    {"topk_method", says_choice},
    {"num_experts", says_experts},
    {"num_local_experts", says_experts},
    {"n_routed_experts", says_experts},
    {"num_experts_per_tok", says_top_k},
    {"num_experts_per_token", says_top_k},
    {"experts_per_token", says_top_k},
    {"n_group", says_groups},
    {"num_expert_group", says_groups},
    {"num_expert_groups", says_groups},
    {"topk_group", says_top_groups},
    {"num_limited_groups", says_top_groups},
    {"routed_scaling_factor", says_scale},
    {"route_scale", says_scale},
    {"moe_intermediate_size", says_expert_width},
    {"attention_head_dim", says_head_dim},
    {"qk_head_dim", says_head_dim},
    {"v_head_dim", says_value_dim},
    {"attention_multiplier", says_attention_scale},
    {"norm_eps", says_norm_eps},
    {"layer_norm_eps", says_norm_eps},
    {"layer_norm_epsilon", says_norm_eps},
    {"layernorm_epsilon", says_norm_eps},
    {"norm_type", says_norm},
    {"normalization_function", says_norm},
    {"attn_output_gate", says_output_gate},
    {"rope_interleave", says_interleaved},
    {"rope_interleaved", says_interleaved},
    {"indexer_rope_interleave", says_indexer_interleaved},
    {"use_rotary_pos_emb", says_rope},
    {"use_pos_enc", says_rope},
    {"position_embedding_type", says_positions},
    {"sliding_window", says_window},
    {"mlp_layer_types", says_mlp_types},
    {"no_rope_layers", says_all_ones},
    {"attn_type_list", says_all_ones},
    {"moe_layer_freq", says_all_ones},
    {"decoder_sparse_step", is_one},
    {"moe_layer_interval", is_one},
    {"partial_rotary_factor", is_one},
    {"rotary_pct", is_one},
    {"embedding_multiplier", is_one},
    {"residual_multiplier", is_one},
    {"residual_scale", is_one},
    {"scale_emb", is_one},
    {"logits_scaling", is_one},
    {"logit_scale", is_one},
    {"attention_value_scale", is_one},
    {"expert_gating_func", is_one},
    {"is_causal", is_true},
    {"causal", is_true},
    {"use_rmsnorm", is_true},
    {"is_encoder_decoder", is_false},
    {"use_sliding_window", is_false},
    {"attention_chunk_size", is_false},
    {"shared_expert_intermediate_size", is_false},
    {"n_shared_experts", is_false},
    {"num_shared_experts", is_false},
    {"final_logit_softcapping", is_false},
    {"attn_logit_softcapping", is_false},
    {"clip_qkv", is_false},
    {"swiglu_limit", is_false},
    {"zero_expert_num", is_false},
    {"hc_mult", is_false},
    {"moe_latent_size", is_false},
    {"index_topk", is_false},
    {"q_lora_rank", is_false},
    {"kv_lora_rank", is_false},
    {"num_kv_shared_layers", is_false},
    {"hidden_size_per_layer_input", is_false},
    {"use_double_wide_mlp", is_false},
    {"attn_temperature_tuning", is_false},
    {"use_cla", is_false},
    {"use_mla", is_false},
    {"layer_types", [](const Json&, const ModelSpec&) { return true; }},  // ConfigReader::finish looks at these
});

}  // namespace

bool is_off(const Json& value) {
  if (value.is_bool()) return !value.as_bool();
  if (value.is_number()) return value.as_double() == 0;
  if (value.is_string()) return value.as_string().empty();
  if (value.is_array()) return value.as_array().empty();
  return value.is_null() || value.as_object().empty();
}

bool changes_nothing(std::string_view key) {
  const auto begins = [key](std::string_view text) { return key.starts_with(text); };
  const auto ends = [key](std::string_view text) { return key.ends_with(text); };
  const bool listed = key.find(' ') == std::string_view::npos && kFree.find(" " + std::string(key) + " ") != kFree.npos;
  return listed || std::any_of(kFreeBeginnings.begin(), kFreeBeginnings.end(), begins) ||
         std::any_of(kFreeEndings.begin(), kFreeEndings.end(), ends);
}

std::optional<bool> agrees(std::string_view key, const Json& value, const ModelSpec& spec) {
  const auto found = std::find_if(kMeanings.begin(), kMeanings.end(), [&](const Meaning& m) { return m.key == key; });
  if (found == kMeanings.end()) return std::nullopt;
  return value.is_null() || found->says(value, spec);
}

}  // namespace colibri::model
