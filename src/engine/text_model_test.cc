#include "engine/text_model.h"

#include <gtest/gtest.h>

namespace colibri::engine {
namespace {

TEST(IsoTime, CivilTimesBecomeSecondsSinceTheEpoch) {
  EXPECT_EQ(*parse_iso_time("1970-01-01T00:00:00"), 0);
  EXPECT_EQ(*parse_iso_time("2026-02-03T04:05:06"), 1770091506);
  EXPECT_EQ(*parse_iso_time("2026-02-03 04:05"), 1770091500);
  EXPECT_EQ(*parse_iso_time("2024-02-29"), 1709164800);
}

TEST(IsoTime, OtherTextIsRefusedWithAnExample) {
  for (const char* text :
       {"", "now", "2026-13-01", "2026-02-30", "2026-02-03T", "2026-02-03T25:00:00", "2026-02-03T04:05:06+02:00"}) {
    const auto result = parse_iso_time(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kUsage);
  }
}

TEST(TextModel, AModelWithoutATokenizerAndAFolderWithoutAModelAreToldApart) {
  const auto no_tokenizer = TextModel::open(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/llama", "");
  ASSERT_FALSE(no_tokenizer.ok());
  EXPECT_NE(no_tokenizer.error().message.find("tokenizer.json"), std::string::npos);
  const auto no_model = TextModel::open(COLIBRI_SOURCE_DIR "/docs", "");
  ASSERT_FALSE(no_model.ok());
  EXPECT_NE(no_model.error().message.find("*.safetensors"), std::string::npos) << no_model.error().message;
}

TEST(TextModel, TheTinyTokenizerAppliesItsTemplate) {
  const auto model = TextModel::open(COLIBRI_SOURCE_DIR "/tests/data/tiny_tokenizer", "");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const Json request =
      *parse_json(R"({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": true})");
  const auto text = model->apply_template(request, 0);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace colibri::engine
