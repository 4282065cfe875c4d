#include "model/families/config.h"

#include <gtest/gtest.h>

#include "model/families/family.h"

namespace colibri::model {
namespace {

Json qwen3_moe_config() {
  return *parse_json(R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 384,
    "hidden_size": 64, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
    "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": true,
    "decoder_sparse_step": 2, "mlp_only_layers": [3], "rope_theta": 1000000.0, "rope_scaling": null,
    "use_sliding_window": false, "sliding_window": null, "hidden_act": "silu", "attention_bias": false})");
}

ErrorCode code_with(const char* key, Json value, const char* mentioned) {
  Json config = qwen3_moe_config();
  config.set(key, std::move(value));
  const auto result = describe_config(config, "config.json");
  if (result.ok()) return ErrorCode::kFailed;
  EXPECT_NE(result.error().message.find(mentioned), std::string::npos) << result.error().message;
  return result.error().code;
}

TEST(Config, AQwen3MoeConfigBecomesItsSpec) {
  const auto result = describe_config(qwen3_moe_config(), "config.json");
  ASSERT_TRUE(result.ok()) << result.error().message;
  const ModelSpec& spec = result->spec;
  EXPECT_EQ(spec.attentions.front().qk_norm, QkNorm::kPerHead);
  EXPECT_TRUE(spec.moe.router.renormalise);
  EXPECT_EQ(spec.n_moe_layers(), 1);  // step 2 leaves layers 1 and 3, mlp_only_layers takes 3
  EXPECT_TRUE(spec.layers[1].moe);
  EXPECT_EQ(spec.layers[0].dense_width, 96);
}

TEST(Config, AnUnknownFamilyIsRefusedWithItsNameTheNearestAndTheList) {
  EXPECT_EQ(code_with("model_type", "qwen9_next", "qwen9_next"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("model_type", "qwen3_mo", "nearest is \"qwen3_moe\""), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("model_type", "bert", "none is like it"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("model_type", "qwen4_moe", "nearest is \"qwen3_moe\""), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("model_type", nullptr, "model_type\" is missing"), ErrorCode::kInvalidModel);
  EXPECT_EQ(code_with("model_type", 5, "model_type\" is 5"), ErrorCode::kInvalidModel);
}

TEST(Config, AContradictionBetweenModelTypeAndArchitecturesNamesBoth) {
  EXPECT_EQ(code_with("architectures", Json::Array{"MixtralForCausalLM"}, "MixtralForCausalLM"),
            ErrorCode::kInvalidModel);
}

TEST(Config, SettingsThatWouldChangeTheForwardPassAreErrorsNotIgnored) {
  EXPECT_EQ(code_with("hidden_act", "gelu", "hidden_act"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("use_sliding_window", true, "use_sliding_window"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("attention_multiplier", 0.5, "attention_multiplier"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("final_logit_softcapping", 30.0, "final_logit_softcapping"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("quantization_config", Json::Object{{"quant_method", "bitsandbytes"}}, "bitsandbytes"),
            ErrorCode::kUnsupported);
  const Json::Array types(4, Json("sliding_attention"));
  EXPECT_EQ(code_with("layer_types", types, "sliding_attention"), ErrorCode::kUnsupported);
  EXPECT_EQ(code_with("rope_scaling", Json::Object{{"rope_type", "ntk"}, {"factor", 2.0}}, "ntk"),
            ErrorCode::kUnsupported);
}

TEST(Config, NumbersOutOfRangeNameKeyAndValue) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_experts", "vocab_size", "num_attention_heads"}) {
    for (const Json& value : {Json(0), Json(-1), Json(1.5), Json("64"), Json(1e18), Json(true)})
      EXPECT_EQ(code_with(key, value, key), ErrorCode::kInvalidModel) << key << " " << value.dump();
  }
  EXPECT_EQ(code_with("num_experts_per_tok", 9, "num_experts_per_tok"), ErrorCode::kInvalidModel);
  EXPECT_EQ(code_with("num_key_value_heads", 3, "num_key_value_heads"), ErrorCode::kInvalidModel);
  EXPECT_EQ(code_with("mlp_only_layers", Json::Array{7}, "mlp_only_layers"), ErrorCode::kInvalidModel);
}

TEST(Config, RopeParametersOfNewConfigsMeanTheSameAsThemOfOldOnes) {
  Json config = qwen3_moe_config();
  config.set("rope_theta", nullptr);
  config.set(
      "rope_parameters",
      Json::Object{
          {"rope_type", "yarn"}, {"rope_theta", 5e5}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}});
  const auto result = describe_config(config, "config.json");
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->spec.ropes.front().theta, 5e5);
  EXPECT_EQ(result->spec.ropes.front().scaling, RopeScaling::kYarn);
  EXPECT_NEAR(result->spec.ropes.front().attention_factor, 1.138629436, 1e-8);
}

// A config of a family, without what the test takes out of it.
Json config_of(std::string_view family, const char* rest) {
  Json config = *parse_json(rest);
  config.set("model_type", family);
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, int>>{{"vocab_size", 384},
                                                                                     {"hidden_size", 64},
                                                                                     {"max_position_embeddings", 4096},
                                                                                     {"num_hidden_layers", 4},
                                                                                     {"num_attention_heads", 4},
                                                                                     {"intermediate_size", 96}})
    config.set(key, value);
  return config;
}

constexpr const char* kDeepseekV3 = R"({"kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
    "v_head_dim": 16, "moe_intermediate_size": 32, "n_routed_experts": 16, "num_experts_per_tok": 3})";

std::string refusal_of(const Json& config) {
  const auto result = describe_config(config, "config.json");
  return result.ok() ? "" : result.error().message;
}

ModelSpec spec_of(const Json& config) {
  const auto result = describe_config(config, "config.json");
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? result->spec : ModelSpec{};
}

TEST(Config, KeysThatNobodyKnowsAreRefusedUnlessTheyAreOff) {
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"foo", 1},
                                                           {"scale_emb", 12},
                                                           {"is_causal", false},
                                                           {"is_encoder_decoder", true},
                                                           {"use_qk_norm", false},
                                                           {"alibi", true},
                                                           {"parallel_attn", true},
                                                           {"scale_depth", 1.4},
                                                           {"residual_scale", 0.5},
                                                           {"hidden_activation", "gelu"},
                                                           {"norm_type", "layernorm"},
                                                           {"attn_sinks", true},
                                                           {"sliding_window", 8},
                                                           {"query_pre_attn_scalar", 99},
                                                           {"partial_rotary_factor", 0.5},
                                                           {"norm_eps", 1e-3},
                                                           {"pruned_heads", Json::Object{{"0", Json::Array{1}}}}}) {
    Json config = qwen3_moe_config();
    if (std::string_view(key) == "sliding_window") config.set("use_sliding_window", nullptr);
    EXPECT_EQ(refusal_of(config), "");
    config.set(key, value);
    EXPECT_NE(refusal_of(config).find(key), std::string::npos) << key << ": " << refusal_of(config);
  }
}

TEST(Config, KeysOfTrainingGenerationAndBookkeepingPass) {
  Json config = qwen3_moe_config();
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Json>>{{"_name_or_path", "x"},
                                                           {"transformers_version", "5.0"},
                                                           {"unsloth_fixed", true},
                                                           {"attention_dropout", 0.1},
                                                           {"router_aux_loss_coef", 0.01},
                                                           {"pad_token_id", 3},
                                                           {"im_end_id", 4},
                                                           {"top_p", 0.9},
                                                           {"use_cache", false},
                                                           {"vision_config", Json::Object{{"depth", 3}}},
                                                           {"foo", nullptr},
                                                           {"bar", false},
                                                           {"baz", Json::Array{}},
                                                           {"hidden_activation", "silu"},
                                                           {"use_qk_norm", true},
                                                           {"norm_eps", 1e-6},
                                                           {"is_causal", true},
                                                           {"layer_types", Json::Array(4, "full_attention")},
                                                           {"num_local_experts", 8},
                                                           {"experts_per_token", 3},
                                                           {"sliding_window", 4096}})
    config.set(key, value);
  EXPECT_EQ(refusal_of(config), "");
  config.set("num_local_experts", 9);
  EXPECT_NE(refusal_of(config).find("num_local_experts"), std::string::npos);
}

TEST(Config, ExpertsThatDoNotFallIntoTheirGroupsAreRefusedWithTheNumbers) {
  for (const auto& [groups, chosen] : std::initializer_list<std::pair<int, int>>{{3, 1}, {16, 8}, {4, 5}, {8, 1}}) {
    Json config = config_of("deepseek_v3", kDeepseekV3);
    config.set("n_group", groups);
    config.set("topk_group", chosen);
    const std::string message = refusal_of(config);
    EXPECT_NE(message.find("group\" is"), std::string::npos) << message;
  }
}

TEST(Config, WhatIsAbsentIsWhatTheFamilysOwnClassHas) {
  const ModelSpec v3 = spec_of(config_of("deepseek_v3", kDeepseekV3));
  EXPECT_EQ(v3.moe.router.scale, 2.5f);
  EXPECT_EQ(v3.moe.router.n_groups, 8);
  EXPECT_EQ(v3.moe.router.top_groups, 4);
  EXPECT_EQ(v3.norm_eps, 1e-6f);
  constexpr const char* kGranite = R"({"num_local_experts": 8, "num_experts_per_tok": 2})";
  EXPECT_EQ(spec_of(config_of("granitemoe", kGranite)).attentions[0].scale, 1.0f);
  const ModelSpec mixtral = spec_of(config_of("mixtral", kGranite));
  EXPECT_EQ(mixtral.norm_eps, 1e-5f);
  EXPECT_EQ(mixtral.ropes[0].theta, 1e6);
  constexpr const char* kDots = R"({"moe_intermediate_size": 32, "n_routed_experts": 8, "num_experts_per_tok": 2})";
  EXPECT_FALSE(spec_of(config_of("dots1", kDots)).moe.router.renormalise);
  EXPECT_EQ(spec_of(config_of("glm4_moe", kDots)).ropes[0].rotary_dim, 8);
  EXPECT_EQ(spec_of(config_of("mistral", "{}")).attentions[0].window, 4096);
}

TEST(Config, RopeBlocksThatContradictThemselvesAreRefused) {
  const Json linear = Json::Object{{"rope_type", "linear"}, {"factor", 4.0}};
  for (const auto& [block, mentioned] : std::initializer_list<std::pair<Json, const char*>>{
           {"yarn", "object"},
           {3, "object"},
           {Json::Array{1}, "object"},
           {Json::Object{{"factor", 2.0}}, "rope_type"},
           {Json::Object{{"type", "yarn"}, {"rope_type", "default"}, {"factor", 4.0}}, "rope_type"},
           {Json::Object{{"type", "yarn"}, {"factor", 4.0}, {"foo", 3}}, "foo"},
           {Json::Object{{"type", "default"}, {"factor", 4.0}}, "factor"}}) {
    Json config = qwen3_moe_config();
    config.set("rope_scaling", block);
    EXPECT_NE(refusal_of(config).find("\"rope_scaling\""), std::string::npos) << refusal_of(config);
    EXPECT_NE(refusal_of(config).find(mentioned), std::string::npos) << refusal_of(config);
  }
  Json config = qwen3_moe_config();
  config.set("rope_scaling", linear);
  config.set("rope_parameters", linear);
  EXPECT_EQ(spec_of(config).ropes[0].scaling, RopeScaling::kLinear);
  config.set("rope_parameters", Json::Object{{"rope_type", "default"}, {"rope_theta", 1e6}});
  EXPECT_NE(refusal_of(config).find("rope_parameters"), std::string::npos);
}

TEST(Config, LongRopeHasBothSetsOfFrequenciesInEveryFamilyButPhimoe) {
  const Json block = Json::Object{{"rope_type", "longrope"},
                                  {"short_factor", Json::Array(8, 1.0)},
                                  {"long_factor", Json::Array(8, 4.0)},
                                  {"original_max_position_embeddings", 64}};
  Json config = qwen3_moe_config();
  config.set("rope_scaling", block);
  EXPECT_EQ(spec_of(config).ropes[0].long_divisors, std::vector<float>(8, 4.0f));
  Json phimoe = config_of("phimoe", R"({"num_local_experts": 8, "num_experts_per_tok": 2})");
  phimoe.set("rope_scaling", block);
  EXPECT_EQ(spec_of(phimoe).ropes[0].long_divisors, std::vector<float>(8, 1.0f));
}

TEST(Config, ListsByLayerMustAgreeWithEachOther) {
  Json smollm = config_of("smollm3", R"({"no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4})");
  EXPECT_EQ(refusal_of(smollm), "");
  smollm.set("no_rope_layer_interval", 3);
  EXPECT_NE(refusal_of(smollm).find("no_rope_layers"), std::string::npos);
  Json next = qwen3_moe_config();
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"model_type", "qwen3_next"},
           {"architectures", nullptr},
           {"shared_expert_intermediate_size", 32},
           {"linear_num_key_heads", 2},
           {"linear_num_value_heads", 4},
           {"linear_key_head_dim", 8},
           {"linear_value_head_dim", 8},
           {"linear_conv_kernel_dim", 4},
           {"full_attention_interval", 4},
           {"layer_types", Json::Array{"linear_attention", "linear_attention", "linear_attention", "full_attention"}}})
    next.set(key, value);
  EXPECT_EQ(refusal_of(next), "");
  next.set("full_attention_interval", 1);
  EXPECT_NE(refusal_of(next).find("full_attention_interval"), std::string::npos);
  Json kimi = config_of("kimi_linear", kDeepseekV3);
  kimi.set("num_experts", 16);
  kimi.set("num_experts_per_token", 3);
  kimi.set("n_routed_experts", nullptr);
  Json linear = *parse_json(R"({"head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4, "kda_layers": [1, 2, 3]})");
  linear.set("full_attn_layers", Json::Array{4});
  kimi.set("linear_attn_config", linear);
  EXPECT_EQ(refusal_of(kimi), "");
  for (const Json& full : {Json(Json::Array{1, 4}), Json(Json::Array{}), Json(Json::Array{0, 4})}) {
    linear.set("full_attn_layers", full);
    kimi.set("linear_attn_config", linear);
    EXPECT_NE(refusal_of(kimi).find("full_attn_layers"), std::string::npos) << refusal_of(kimi);
  }
}

TEST(Config, PublishedConfigsAreUnderstoodWithAllTheirKeys) {
  const auto file = read_config_file(COLIBRI_SOURCE_DIR "/tests/data/published_configs.json");
  ASSERT_TRUE(file.ok()) << file.error().message;
  for (const auto& [name, config] : file->as_object()) EXPECT_EQ(refusal_of(config), "") << name;
}

TEST(Config, NemotronClampsItsStepsByTheLowerBoundThatTransformersTakes) {
  Json config = config_of("nemotron_h", R"({"hybrid_override_pattern": "MM*-", "mamba_num_heads": 4,
    "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "time_step_limit": [0.5, 0.6]})");
  EXPECT_EQ(spec_of(config).mamba.min_step, 0.001f);
  EXPECT_EQ(spec_of(config).mamba.max_step, HUGE_VALF);
  config.set("time_step_min", 0.5);
  EXPECT_EQ(spec_of(config).mamba.min_step, 0.5f);
}

Json deepseek_v4_config() {
  return *parse_json(R"({"model_type": "deepseek_v4", "vocab_size": 384, "hidden_size": 64, "head_dim": 32,
    "max_position_embeddings": 1024, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1,
    "q_lora_rank": 24, "o_groups": 2, "o_lora_rank": 16, "sliding_window": 16, "qk_rope_head_dim": 8,
    "rope_theta": 10000.0, "compress_rope_theta": 160000.0, "index_n_heads": 16, "index_head_dim": 32,
    "index_topk": 6, "hc_mult": 4, "hc_sinkhorn_iters": 20, "n_routed_experts": 8, "num_experts_per_tok": 3,
    "n_shared_experts": 1, "moe_intermediate_size": 32, "scoring_func": "sqrtsoftplus", "swiglu_limit": 10.0})");
}

// The published files have a number for each layer where transformers writes names, and one RoPE block.
TEST(Config, PublishedAndRewrittenConfigsOfDeepseekV4AreTheSameModel) {
  Json published = deepseek_v4_config(), rewritten = published;
  const Json::Object yarn{{"rope_type", "yarn"}, {"factor", 16.0}, {"original_max_position_embeddings", 64}};
  published.set("rope_scaling", yarn);
  published.set("compress_ratios", Json::Array{0, 4, 128, 0});
  published.set("num_hash_layers", 1);
  Json::Object compress = yarn;
  compress.emplace_back("rope_theta", 160000.0);
  compress.emplace_back("attention_factor", 1.0);
  rewritten.set("rope_parameters",
                Json::Object{{"main", Json::Object{{"rope_type", "default"}}}, {"compress", compress}});
  rewritten.set("layer_types",
                Json::Array{"sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"});
  rewritten.set("mlp_layer_types", Json::Array{"hash_moe", "moe", "moe"});
  for (const Json& config : {published, rewritten}) {
    const auto result = describe_config(config, "config.json");
    ASSERT_TRUE(result.ok()) << result.error().message;
    const ModelSpec& spec = result->spec;
    EXPECT_EQ(spec.attention_of(spec.layers[0]).compressor.rate, 0);
    EXPECT_EQ(spec.attention_of(spec.layers[1]).compressor.rate, 4);
    EXPECT_EQ(spec.attention_of(spec.layers[1]).indexer.top_k, 6);
    EXPECT_EQ(spec.attention_of(spec.layers[2]).compressor.rate, 128);
    EXPECT_TRUE(spec.layers[0].hash_moe && !spec.layers[1].hash_moe);
    EXPECT_TRUE(spec.recurrent());
    EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kNone);
    EXPECT_EQ(spec.ropes[1].scaling, RopeScaling::kYarn);
    EXPECT_EQ(spec.ropes[1].theta, 160000.0);
    EXPECT_EQ(spec.ropes[1].attention_factor, 1.0);
    EXPECT_EQ(spec.ropes[1].rotary_dim, 8);
  }
  published.set("compress_ratios", Json::Array{0, 8, 128});
  EXPECT_EQ(describe_config(published, "config.json").error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace colibri::model
