#include "formats/safetensors_index.h"

#include "formats/test_files.h"

namespace colibri::formats {
namespace {

constexpr const char* kOne = "model-00001-of-00002.safetensors";
constexpr const char* kTwo = "model-00002-of-00002.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

class Shards : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write(kOne, safetensors_with({"a", "b"}));
    write(kTwo, safetensors_with({"c"}));
    write_index({{"a", kOne}, {"b", kOne}, {"c", kTwo}});
  }
  void write_index(const std::vector<std::pair<std::string, std::string>>& map) const {
    Json json, weights = Json::Object();
    for (const auto& [tensor, shard] : map) weights.as_object().emplace_back(tensor, shard);
    json.set("metadata", Json::Object()).set("weight_map", std::move(weights));
    write(kIndex, json.dump());
  }
};

TEST_F(Shards, OpenFromTheFolderOrTheIndex) {
  for (const std::string& p : {folder, path(kIndex)}) {
    const auto catalog = open_catalog(p);
    ASSERT_TRUE(catalog.ok()) << catalog.error().message;
    EXPECT_EQ(catalog->tensors().size(), 3u);
    EXPECT_EQ(catalog->files()[static_cast<size_t>(catalog->find("c")->file)].path(), path(kTwo));
    std::byte bytes[4];
    EXPECT_TRUE(catalog->read(*catalog->find("c"), 0, bytes).ok());
  }
}

TEST_F(Shards, MissingOnesAreListed) {
  std::filesystem::remove(path(kTwo));
  EXPECT_SAYS(open_error(folder), std::string("1 of 2 shards are missing: \"") + kTwo + "\"");
  std::filesystem::remove(path(kOne));
  EXPECT_SAYS(open_error(folder), "2 of 2 shards are missing");
}

TEST_F(Shards, ExtraOnesAreListed) {
  write("model-00001-of-00003.safetensors", safetensors_with({"z"}));
  write("expected.safetensors", safetensors_with({"y"}));  // no shard: ignored
  EXPECT_SAYS(open_error(folder), "1 shards that the index does not list: \"model-00001-of-00003.safetensors\"");
}

TEST_F(Shards, ANumberBeyondTheSetIsExtraToo) {
  for (const char* stray : {"model-00003-of-00002.safetensors", "model-00000-of-00002.safetensors"}) {
    write(stray, safetensors_with({"z"}));
    EXPECT_SAYS(open_error(folder), std::string("1 shards that the index does not list: \"") + stray + "\"");
    std::filesystem::remove(path(stray));
  }
  EXPECT_EQ(open_error(folder), "opened with 3 tensors");
}

TEST_F(Shards, SwappedOnesAreListed) {
  write(kOne, safetensors_with({"c"}));
  write(kTwo, safetensors_with({"a", "b"}));
  EXPECT_SAYS(open_error(folder), std::string("3 tensors are in another shard than the index says: \"c in ") + kOne +
                                      " instead of " + kTwo);
}

TEST_F(Shards, ACopyInPlaceOfAnotherIsNoticed) {
  write(kTwo, safetensors_with({"a", "b"}));
  EXPECT_SAYS(open_error(folder), std::string("2 tensors are in another shard than the index says: \"a in ") + kTwo);
}

TEST_F(Shards, AShardOfAnotherModelIsNoticed) {
  write(kTwo, safetensors_with({"x"}));
  EXPECT_SAYS(open_error(folder), std::string("1 tensors of the index are in no shard: \"c of ") + kTwo);
  write(kTwo, safetensors_with({"c", "x"}));
  EXPECT_SAYS(open_error(folder), std::string("1 tensors are not in the index: \"x in ") + kTwo);
}

TEST_F(Shards, ATruncatedShardIsNamedWithBothSizes) {
  const std::string whole = safetensors_with({"c"});
  write(kTwo, whole.substr(0, whole.size() - 1));
  const std::string error = open_error(folder);
  EXPECT_SAYS(error, path(kTwo) + ": truncated: " + std::to_string(whole.size()) + " bytes expected, " +
                         std::to_string(whole.size() - 1) + " found");
}

TEST_F(Shards, NamesMustNotLeaveTheFolder) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\b", "\\u0000"}) {
    write(kIndex,
          std::string(R"({"weight_map": {"a": ")") + (std::string_view(name) == "a\\b" ? "a\\\\b" : name) + "\"}}");
    EXPECT_SAYS(open_error(folder), "a plain file name is needed");
  }
}

TEST_F(Shards, DamagedIndexesAreNamed) {
  for (const auto& [text, words] : {std::pair{"{}", "no object \"weight_map\""},
                                    {"[]", "weight_map"},
                                    {R"({"weight_map": {}})", "empty"},
                                    {R"({"weight_map": {"a": 1}})", "plain file name"},
                                    {R"({"weight_map": {"a": "x", "a": "y"}})", "duplicate key"},
                                    {"{", "JSON line 1"},
                                    {"version https://git-lfs.github.com/spec/v1", "is a Git LFS pointer"},
                                    {"<html>", "is a web page"}}) {
    write(kIndex, text);
    EXPECT_SAYS(open_error(folder), words);
    EXPECT_SAYS(open_error(folder), path(kIndex));
  }
}

TEST_F(Shards, TwoModelsInAFolderAreNotGuessed) {
  write("model.safetensors", safetensors_with({"a"}));
  EXPECT_SAYS(open_error(folder), "holds both model.safetensors and an index");
  write_index({{"a", "model.safetensors"}});
  std::filesystem::remove(path(kOne));
  std::filesystem::remove(path(kTwo));
  EXPECT_EQ(open_error(folder), "opened with 1 tensors");
}

}  // namespace
}  // namespace colibri::formats
