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
  EXPECT_EQ(code_with("model_type", nullptr, "model_type"), ErrorCode::kInvalidModel);
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
