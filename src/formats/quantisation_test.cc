#include "formats/quantisation.h"

#include <gtest/gtest.h>

#include "formats/test_files.h"

namespace colibri::formats {
namespace {

Result<Quantisation> read(const std::string& text) {
  Json config;
  config.set("quantization_config", *parse_json(text));
  return read_quantisation(config, "config.json");
}

std::string error(const std::string& text, ErrorCode code) {
  const auto q = read(text);
  if (q.ok()) return "read as " + q->describe();
  EXPECT_EQ(q.error().code, code) << q.error().message;
  return q.error().message;
}
std::string refusal(const std::string& text) { return error(text, ErrorCode::kUnsupported); }
std::string mistake(const std::string& text) { return error(text, ErrorCode::kInvalidModel); }

TEST(Quantisation, AModelWithoutAConfigIsNotQuantised) {
  const auto q = read_quantisation(Json{Json::Object{}}, "config.json");
  ASSERT_TRUE(q.ok());
  EXPECT_TRUE(q->schemes.empty());
  EXPECT_EQ(q->describe(), "");
}

// As published.
TEST(Quantisation, PublishedConfigsAreUnderstood) {
  const auto describe = [](const std::string& text) {
    const auto q = read(text);
    return q.ok() ? q->describe() : q.error().message;
  };
  EXPECT_EQ(describe(R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                         "weight_block_size": [128, 128]})"),
            "fp8, 8 bits, tiles of 128 x 128");
  EXPECT_EQ(describe(R"({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})"),
            "mxfp4, 4 bits, groups of 32");
  EXPECT_EQ(describe(R"({"bits": 4, "group_size": 128, "quant_method": "awq", "version": "gemm", "zero_point": true,
                         "modules_to_not_convert": ["gate"]})"),
            "awq, 4 bits, groups of 128");
  EXPECT_EQ(describe(R"({"bits": 4, "checkpoint_format": "gptq", "damp_percent": 0.1, "desc_act": true,
                         "group_size": 32, "quant_method": "gptq", "sym": false, "true_sequential": true,
                         "meta": {"quantizer": ["gptqmodel:1.4.0"]}, "dynamic": {"-:.*gate": {}}})"),
            "gptq, 4 bits, groups of 32, act order");
  EXPECT_EQ(describe(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "kv_cache_scheme": null,
                         "quantization_status": "compressed", "ignore": ["lm_head", "re:.*self_attn.*"],
                         "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": null,
                           "weights": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": 32,
                             "num_bits": 4, "observer": "minmax", "observer_kwargs": {}, "strategy": "group",
                             "symmetric": true, "type": "int"}}}})"),
            "compressed-tensors, 4 bits, groups of 32");
  EXPECT_EQ(describe(R"({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq", "bits": 4,
                         "group_size": 128, "sym": true, "data_type": "int"})"),
            "auto-round, 4 bits, groups of 128");
}

TEST(Quantisation, EachGroupOfModulesHasItsScheme) {
  const auto q = read(R"({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {
    "group_0": {"format": "float-quantized", "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}},
    "group_1": {"format": "nvfp4-pack-quantized", "weights": {"num_bits": 4, "type": "float",
                "strategy": "tensor_group", "group_size": 16}}}})");
  ASSERT_TRUE(q.ok()) << q.error().message;
  ASSERT_EQ(q->schemes.size(), 2u);
  EXPECT_EQ(q->schemes[0].storage, Storage::kFp8);
  EXPECT_EQ(q->schemes[1].storage, Storage::kFp4);
  EXPECT_TRUE(q->schemes[1].divide_by_global);
  EXPECT_EQ(q->describe(), "compressed-tensors, 8 bits and 4 bits, groups of 16");
}

TEST(Quantisation, TheVersionOfGptqDecidesWhatZerosMean) {
  const std::string rest = R"("quant_method": "gptq", "bits": 4, "group_size": 128})";
  EXPECT_TRUE(read("{" + rest)->schemes[0].zero_plus_one);
  EXPECT_TRUE(read(R"({"checkpoint_format": "gptq", )" + rest)->schemes[0].zero_plus_one);
  EXPECT_FALSE(read(R"({"checkpoint_format": "gptq_v2", )" + rest)->schemes[0].zero_plus_one);
  EXPECT_SAYS(refusal(R"({"checkpoint_format": "marlin", )" + rest), "\"marlin\"");
}

TEST(Quantisation, WhatCannotBeDecodedIsRefusedByNameWithAdvice) {
  for (const char* method : {"bitsandbytes", "hqq", "eetq", "aqlm", "bitnet", "torchao", "quark", "nonsense"}) {
    const std::string message = refusal(R"({"quant_method": ")" + std::string(method) + "\"}");
    EXPECT_SAYS(message, method);
    EXPECT_SAYS(message, "GGUF");
  }
  EXPECT_SAYS(refusal(R"({"quant_method": "auto-round", "packing_format": "auto_round:llm_compressor"})"),
              "packing_format");
  Json mlx;
  mlx.set("quantization", *parse_json(R"({"group_size": 64, "bits": 4})"));
  EXPECT_SAYS(read_quantisation(mlx, "config.json").error().message, "MLX");
}

TEST(Quantisation, AKeyThatNobodyKnowsIsRefused) {
  EXPECT_SAYS(refusal(R"({"quant_method": "fp8", "hadamard": 4})"), "\"hadamard\" is \"4\"");
  EXPECT_SAYS(refusal(R"({"quant_method": "gptq", "dynamic": {"+:.*down_proj": {"bits": 8}}})"), "dynamic");
  EXPECT_SAYS(refusal(R"({"quant_method": "compressed-tensors", "transform_config": {"a": 1}})"), "transform_config");
  EXPECT_SAYS(refusal(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups":
                          {"g": {"weights": {"num_bits": 4, "rounding": "up"}}}})"),
              "\"rounding\"");
  EXPECT_TRUE(read(R"({"quant_method": "fp8", "hadamard": null})").ok());
}

TEST(Quantisation, ValuesThatMakeNoSenseAreMistakes) {
  EXPECT_SAYS(mistake("[]"), "no object");
  EXPECT_SAYS(mistake(R"({"quant_method": 4})"), "quant_method");
  EXPECT_SAYS(mistake(R"({"quant_method": "gptq", "group_size": 0})"), "group_size");
  EXPECT_SAYS(mistake(R"({"quant_method": "fp8", "weight_block_size": [128, 0]})"), "weight_block_size");
  EXPECT_SAYS(mistake(R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0":
      {"targets": ["foo"], "weights": {"num_bits": 4, "type": "int", "strategy": "channel"}}}})"),
              "targets");
  EXPECT_SAYS(refusal(R"({"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {"group_0":
      {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "channel"}}}})"),
              "\"format\" is \"marlin-24\"");
  EXPECT_SAYS(refusal(R"({"quant_method": "gptq", "bits": 3})"), "bits");
  EXPECT_SAYS(refusal(R"({"quant_method": "awq", "version": "gemv"})"), "gemv");
}

}  // namespace
}  // namespace colibri::formats
