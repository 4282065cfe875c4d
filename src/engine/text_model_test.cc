#include "engine/text_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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

const std::filesystem::path kTokenizers = COLIBRI_SOURCE_DIR "/tests/data/tokenizer_files";

TEST(TextModel, AFolderWithAnyTokenizerFileIsOne) {
  for (const char* name : {"bpe", "unigram", "tiktoken", "tekken", "unigram_json"}) {
    const auto model = TextModel::open((kTokenizers / name).string(), "");
    ASSERT_TRUE(model.ok()) << model.error().message;
    const TokenIds ids = model->tokenizer()->encode("I'm here");
    EXPECT_EQ(model->tokenizer()->decode(ids), "I'm here") << name;
  }
  const auto nothing = TextModel::open(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/llama", "");
  EXPECT_NE(nothing.error().message.find(
                "looked for tokenizer.json, tekken.json, tokenizer.model, tiktoken.model, *.tiktoken"),
            std::string::npos)
      << nothing.error().message;
}

/// A folder that goes when the test ends.
struct TemporaryFolder {
  TemporaryFolder() { std::filesystem::create_directories(path); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  void add(const std::filesystem::path& file) const { std::filesystem::copy_file(file, path / file.filename()); }
  void write(const char* name, std::string_view text) const { std::ofstream(path / name, std::ios::binary) << text; }
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "text_model_test";
};

TEST(TextModel, OfSeveralTokenizerFilesTheBestCountsUnlessOneIsNamed) {
  const TemporaryFolder folder;
  const auto source = [&](const std::filesystem::path& path) {
    const auto model = TextModel::open(path.string(), "");
    return model.ok() ? std::filesystem::path(model->source()).filename().string() : model.error().message;
  };
  folder.add(kTokenizers / "tiktoken" / "tiktoken.model");
  EXPECT_EQ(source(folder.path), "tiktoken.model");
  folder.add(kTokenizers / "bpe" / "tokenizer.model");
  EXPECT_EQ(source(folder.path), "tokenizer.model");
  folder.add(kTokenizers / "tekken" / "tekken.json");
  EXPECT_EQ(source(folder.path), "tekken.json");
  folder.add(kTokenizers / "unigram_json" / "tokenizer.json");
  EXPECT_EQ(source(folder.path), "tokenizer.json");
  EXPECT_EQ(source(folder.path / "tokenizer.model"), "tokenizer.model");
}

TEST(TextModel, AddedTokensOfOlderRepositoriesComeFromTheirOwnFile) {
  const TemporaryFolder folder;
  folder.add(kTokenizers / "bpe" / "tokenizer.model");
  folder.write("added_tokens.json", R"({"<|new|>": 620, "<think>": 621})");
  const auto model = TextModel::open(folder.path.string(), "");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->tokenizer()->find("<|new|>"), 620);
  EXPECT_TRUE(model->tokenizer()->is_special(620));
  EXPECT_FALSE(model->tokenizer()->is_special(621));
}

TEST(TextModel, RequestsWithToolsUseTheTemplateForThem) {
  const TemporaryFolder folder;
  folder.add(kTokenizers / "tekken" / "tekken.json");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "plain"},
      {"name": "tool_use", "template": "{{ tools|length }} tools"}]})");
  const auto model = TextModel::open(folder.path.string(), "");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(*model->apply_template(*parse_json(R"({"messages": []})"), 0), "plain");
  EXPECT_EQ(*model->apply_template(*parse_json(R"({"messages": [], "tools": [{}, {}]})"), 0), "2 tools");
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
