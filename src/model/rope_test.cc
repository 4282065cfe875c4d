#include "model/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "formats/catalog.h"
#include "model/families/family.h"

namespace colibri::model {
namespace {

std::vector<float> read_floats(const formats::TensorCatalog& catalog, const char* name) {
  const formats::TensorInfo* tensor = catalog.find(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(tensor->shape.elements()));
  EXPECT_TRUE(catalog.read(*tensor, 0, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1.0f, 1e-6f) << i;
}

// Cosines of all positions, then sines; with two sets of frequencies, the long ones behind the short ones in each.
std::vector<float> far_table(const RopeSpec& rope, int64_t positions) {
  const auto floats = static_cast<size_t>(rope_table_floats(rope, positions));
  std::vector<float> table(2 * floats);
  fill_rope_tables(rope, positions, table.data(), table.data() + floats);
  return table;
}

TEST(Rope, FrequenciesOfEveryTestModelEqualTransformers) {
  int compared = 0;
  for (const char* family : {"llama", "mixtral", "qwen2_moe", "qwen3", "qwen3_moe", "olmoe"}) {
    const std::string folder = std::string(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/") + family;
    const auto catalog = formats::open_catalog(folder);
    ASSERT_TRUE(catalog.ok()) << catalog.error().message;
    const auto description = describe_model(folder, *catalog);
    ASSERT_TRUE(description.ok()) << description.error().message;
    const auto expected = formats::open_catalog(folder + "/expected.safetensors");
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    const std::vector<float> want = read_floats(*expected, "rope.inv_freq");
    if (want.empty()) continue;
    expect_close(rope_inverse_frequencies(description->spec.ropes.front()), want);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

struct Angles {
  const char* model;
  const char* key;
  size_t rope;  // which of ModelSpec::ropes
};

// tools/make_long_data.py: cos and sin at 1, 4095, 32767 and 131071. Both sides multiply position and frequency in
// float32. Theirs comes from a float32 power, a reciprocal and a scaling, each with a rounding or two: four units in
// the last place turn the angle by angle * 2^-21 at most, and change cos and sin by no more.
TEST(Rope, AnglesFarIntoATextEqualTransformers) {
  const auto expected = formats::open_catalog(COLIBRI_SOURCE_DIR "/tests/data/rope_angles.safetensors");
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  constexpr std::array<int64_t, 4> kPositions = {1, 4095, 32767, 131071};
  constexpr std::array<Angles, 12> kAngles = {{{"llama", "llama", 0},
                                               {"mixtral", "mixtral", 0},
                                               {"qwen3", "qwen3", 0},
                                               {"deepseek_v3", "deepseek_v3", 0},
                                               {"gpt_oss", "gpt_oss", 0},
                                               {"phimoe", "phimoe", 0},
                                               {"minimax_m2", "minimax_m2", 0},
                                               {"hunyuan_v1_moe", "hunyuan_v1_moe", 0},
                                               {"gemma3_text", "gemma3_text.full_attention", 0},
                                               {"gemma3_text", "gemma3_text.sliding_attention", 1},
                                               {"gemma4", "gemma4.full_attention", 0},
                                               {"gemma4", "gemma4.sliding_attention", 1}}};
  for (const Angles& angles : kAngles) {
    SCOPED_TRACE(angles.key);
    const std::string folder = std::string(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/") + angles.model;
    const auto catalog = formats::open_catalog(folder);
    ASSERT_TRUE(catalog.ok()) << catalog.error().message;
    const auto description = describe_model(folder, *catalog);
    ASSERT_TRUE(description.ok()) << description.error().message;
    const RopeSpec& rope = description->spec.ropes.at(angles.rope);
    const auto want_cos = read_floats(*expected, (std::string(angles.key) + ".cos").c_str());
    const auto want_sin = read_floats(*expected, (std::string(angles.key) + ".sin").c_str());
    const auto pairs = static_cast<size_t>(rope.rotary_dim / 2);
    ASSERT_EQ(want_cos.size(), kPositions.size() * pairs);
    const std::vector<float> frequencies = rope_inverse_frequencies(rope, rope.has_long());
    const double factor = rope.has_long() ? rope.long_attention_factor : rope.attention_factor;
    const std::vector<float> table = far_table(rope, kPositions.back() + 1);
    const size_t sines = table.size() / 2;
    const size_t start = rope.has_long() ? sines / 2 : 0;
    for (size_t p = 0; p < kPositions.size(); ++p)
      for (size_t i = 0; i < pairs; ++i) {
        const size_t at = start + static_cast<size_t>(kPositions[p]) * pairs + i;
        const double angle = static_cast<double>(kPositions[p]) * static_cast<double>(frequencies[i]);
        const double tolerance = factor * (2e-7 + angle * 0x1p-21);
        EXPECT_NEAR(table[at], want_cos[p * pairs + i], tolerance) << kPositions[p] << " pair " << i;
        EXPECT_NEAR(table[sines + at], want_sin[p * pairs + i], tolerance) << kPositions[p] << " pair " << i;
      }
  }
}

// transformers 5.24, ROPE_INIT_FUNCTIONS["yarn"], head size 16, theta 1e6, factor 4, original context 32.
TEST(Rope, YarnBlendsBetweenItsTwoDimensions) {
  RopeSpec spec;
  spec.rotary_dim = 16;
  spec.theta = 1e6;
  spec.scaling = RopeScaling::kYarn;
  spec.factor = 4;
  spec.original_context = 32;
  // find_correction_dim(32) = -1.06..., of 1 = 0.94...: rounded and clamped to 0 and 1.
  const std::array<double, 8> want = {1.0,
                                      0.25 * std::pow(1e6, -1.0 / 8),
                                      0.25 * std::pow(1e6, -2.0 / 8),
                                      0.25 * std::pow(1e6, -3.0 / 8),
                                      0.25 * std::pow(1e6, -4.0 / 8),
                                      0.25 * std::pow(1e6, -5.0 / 8),
                                      0.25 * std::pow(1e6, -6.0 / 8),
                                      0.25 * std::pow(1e6, -7.0 / 8)};
  const std::vector<float> got = rope_inverse_frequencies(spec);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1.0, 1e-6) << i;
}

TEST(Rope, LinearScalingDividesAndDivisorsOfAGgufDivideAsWell) {
  RopeSpec spec;
  spec.rotary_dim = 4;
  spec.theta = 100;
  spec.scaling = RopeScaling::kLinear;
  spec.factor = 2;
  spec.frequency_divisors = {1.0f, 8.0f};
  const std::vector<float> got = rope_inverse_frequencies(spec);
  EXPECT_FLOAT_EQ(got[0], 0.5f);
  EXPECT_FLOAT_EQ(got[1], 0.1f / 16.0f);
}

TEST(Rope, TablesHoldCosAndSinTimesTheAttentionFactor) {
  RopeSpec spec;
  spec.rotary_dim = 4;
  spec.attention_factor = 1.5;
  std::vector<float> cos(6), sin(6);
  ASSERT_EQ(rope_table_floats(spec, 3), 6);
  fill_rope_tables(spec, 3, cos.data(), sin.data());
  EXPECT_FLOAT_EQ(cos[0], 1.5f);
  EXPECT_FLOAT_EQ(sin[0], 0.0f);
  EXPECT_FLOAT_EQ(cos[4], static_cast<float>(1.5 * std::cos(2.0)));
  EXPECT_FLOAT_EQ(sin[4], static_cast<float>(1.5 * std::sin(2.0)));
}

}  // namespace
}  // namespace colibri::model
