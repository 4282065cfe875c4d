// Phi-3.5-MoE: layer norms with biases, LongRoPE, and a router that softens two maxima one after the other.
#include "model/families/family.h"

namespace colibri::model {
namespace {

// transformers 5.24 takes the long factor on cos and sin for long prompts, but stays with the short frequencies;
// llama.cpp takes both.
bool long_frequencies(ConfigReader& reader) {
  const Json* block = reader.find(reader.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling");
  const Json* both = block != nullptr ? block->find_value("long_frequencies") : nullptr;
  return reader.from_gguf() || (both != nullptr && *both == Json(true));
}

Result<ModelSpec> read_config(ConfigReader& reader) {
  ModelSpec spec = read_common(reader, "phimoe");
  spec.layer_norm = true;
  if (spec.ropes[0].has_long() && !long_frequencies(reader)) {
    spec.ropes[0].long_divisors = spec.ropes[0].frequency_divisors;
    spec.notes.emplace_back(
        "prompts beyond the original context change the factor on cos and sin, not the frequencies, as "
        "transformers 5.24 does; \"long_frequencies\": true in rope_scaling changes both");
  }
  spec.head_bias = reader.flag_or("lm_head_bias", false);
  AttentionSpec& a = spec.attentions[0];
  a.qkv_bias = a.output_bias = reader.flag_or("attention_bias", false);
  const int window = reader.count_or("sliding_window", 0);
  a.window = window < spec.context ? window : 0;
  spec.moe.expert_width = reader.size("intermediate_size");
  compute::RouterParams& router = spec.moe.router;
  router.kind = compute::RouterKind::kSparseMixer;
  router.n_experts = reader.size("num_local_experts", 65536);
  router.top_k = reader.size("num_experts_per_tok", router.n_experts);
  router.jitter = static_cast<float>(reader.positive_or("router_jitter_noise", 0.01));
  if (router.top_k != 2) reader.fail_unsupported("num_experts_per_tok", "must be 2 for this family's router");
  all_layers_moe(spec);
  return reader.finish(std::move(spec));
}

Status translate_gguf(const GgufFile& file, Json& config) {
  config.set("lm_head_bias", file.catalog.find("output.bias") != nullptr);
  COLIBRI_ASSIGN(Json short_factors, file.floats("rope_factors_short.weight"));
  COLIBRI_ASSIGN(Json long_factors, file.floats("rope_factors_long.weight"));
  if (short_factors.is_null() || long_factors.is_null()) return {};
  Json rope = Json::Object{
      {"rope_type", "longrope"}, {"short_factor", std::move(short_factors)}, {"long_factor", std::move(long_factors)}};
  file.copy("rope.scaling.original_context_length", "original_max_position_embeddings", rope);
  file.copy("rope.scaling.attn_factor", "attention_factor", rope);
  config.set("rope_scaling", std::move(rope));
  return {};
}

}  // namespace

extern const Family kPhimoe = {
    .name = "phimoe",
    .architectures = {"PhiMoEForCausalLM", "PhimoeForCausalLM"},
    .gguf_architecture = "phimoe",
    .read_config = read_config,
    .keys = {.defaults = {{"rms_norm_eps", 1e-5}, {"rope_theta", 1e6}},
             .synonyms = {{"num_local_experts", "num_experts"}, {"rms_norm_eps", "layer_norm_eps"}}},
    .names = &kMixtralNames,
    .translate_gguf = translate_gguf};

}  // namespace colibri::model
