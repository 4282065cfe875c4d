#include "formats/catalog.h"

#include <ctime>

#include "formats/test_files.h"
#include "tensor/convert.h"
#include "tensor/packed.h"

namespace colibri::formats {
namespace {

class Catalog : public FolderTest {};

TEST_F(Catalog, NothingThereIsSaid) {
  EXPECT_SAYS(open_error(path("none")), "none: cannot open: No such file");
  EXPECT_SAYS(open_error("some-owner/some-model"), "download it first");
  EXPECT_EQ(open_error(folder), folder + ": is an empty folder, not a model");
  write("notes.txt", "hello");
  EXPECT_EQ(open_error(folder), folder + ": holds no *.safetensors and no *.gguf");
  write("pytorch_model.bin", "PK\x03\x04");
  EXPECT_SAYS(open_error(folder), "it holds PyTorch checkpoints (\"pytorch_model.bin\")");
  write("expected.safetensors", safetensors_with({"a"}));
  EXPECT_SAYS(open_error(folder), "it holds PyTorch checkpoints (\"pytorch_model.bin\")");
  write("model-00001-of-00002.safetensors", safetensors_with({"a"}));
  EXPECT_SAYS(open_error(folder), "give the path of one, or fetch the missing index");
}

TEST_F(Catalog, WhatIsNoModelIsSaid) {
  write("notes.txt", "Remember the milk");
  EXPECT_SAYS(open_error(path("notes.txt")), "is a text that begins with \"Remember the milk\", not a model");
  EXPECT_EQ(open_error("/dev/null"), "/dev/null: is not a regular file");
  write("config.json", "{}");
  EXPECT_EQ(open_error(path("config.json")),
            path("config.json") + ": is not the weights of a model: give the folder, " + folder);
  EXPECT_SAYS(open_error(path("other.json")), "cannot open: No such file");
}

TEST_F(Catalog, ReadingATruncatedFileNamesTheTensor) {
  write("m.safetensors", safetensors_with({"a"}));
  const auto catalog = open_catalog(path("m.safetensors"));
  ASSERT_TRUE(catalog.ok());
  std::filesystem::resize_file(path("m.safetensors"), 20);
  std::byte bytes[4];
  const Status status = catalog->read(catalog->tensors()[0], 0, bytes);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_SAYS(status.error().message, "tensor \"a\"");
  EXPECT_SAYS(status.error().message, "truncated");
}

TEST_F(Catalog, ReadingBeyondATensorIsAProgrammingError) {
  write("m.safetensors", safetensors_with({"a"}));
  const auto catalog = open_catalog(path("m.safetensors"));
  ASSERT_TRUE(catalog.ok());
  std::byte bytes[4];
  EXPECT_DEATH((void)catalog->read(catalog->tensors()[0], 1, bytes), "internal error");
}

TEST_F(Catalog, ManyTensorsOpenFast) {
  std::vector<std::string> names;
  names.reserve(100000);
  for (int i = 0; i < 100000; ++i)
    names.push_back("model.layers.0.mlp.experts." + std::to_string(i) + ".gate_proj.weight");
  write("many.safetensors", safetensors_with(names));
  Gguf gguf;
  for (size_t i = 0; i < names.size(); ++i) gguf.tensor(names[i], {8}, 0, 32 * i);
  write("many.gguf", gguf.file(32 * names.size()));
  for (const char* file : {"many.safetensors", "many.gguf"}) {
    const std::clock_t start = std::clock();
    const auto catalog = open_catalog(path(file));
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;  // processor time
    ASSERT_TRUE(catalog.ok()) << catalog.error().message;
    EXPECT_EQ(catalog->tensors().size(), names.size());
    EXPECT_LT(seconds, 20.0);  // far below one in a release build; quadratic code takes minutes
    RecordProperty(file, static_cast<int>(seconds * 1000));
  }
}

class Shared : public testing::Test {
 protected:
  void SetUp() override {
    folder = shared_folder();
    if (folder.empty()) GTEST_SKIP() << "the shared test data are not here";
  }
  std::string folder;
};

// Every tensor has a name, positive dimensions, and bytes that follow from them.
void expect_sane(const std::string& path) {
  SCOPED_TRACE(path);
  const auto catalog = open_catalog(path);
  ASSERT_TRUE(catalog.ok()) << catalog.error().message;
  EXPECT_GT(catalog->tensors().size(), 3u);
  for (const TensorInfo& tensor : catalog->tensors()) {
    const DTypeInfo& type = info(tensor.dtype);
    EXPECT_FALSE(tensor.name.empty());
    EXPECT_EQ(tensor.bytes, tensor.shape.elements() / type.block_elements * type.block_bytes) << tensor.name;
    EXPECT_GT(tensor.bytes, 0) << tensor.name;
    EXPECT_EQ(catalog->find(tensor.name), &tensor);
  }
}

TEST_F(Shared, EveryCheckpointOpens) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/oracle/checkpoints")) {
    expect_sane(entry.path().string());
    expect_sane((entry.path() / "expected.safetensors").string());
    ++n;
  }
  EXPECT_GE(n, 50);
}

TEST_F(Shared, EveryGgufOpensWithItsMetadata) {
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/oracle/gguf")) {
    if (entry.path().extension() != ".gguf") continue;
    expect_sane(entry.path().string());
    const auto catalog = open_catalog(entry.path().string());
    const Json* architecture = catalog->metadata().find("general.architecture");
    ASSERT_NE(architecture, nullptr);
    const TensorInfo* embedding = catalog->find("token_embd.weight");
    ASSERT_NE(embedding, nullptr);
    const Json* width = catalog->metadata().find(architecture->as_string() + ".embedding_length");
    ASSERT_NE(width, nullptr);
    EXPECT_EQ(embedding->shape[1], width->as_int()) << entry.path();  // row-major: [vocabulary, width]
    EXPECT_EQ(embedding->shape[0], 384) << entry.path();
    ++n;
  }
  EXPECT_GE(n, 30);
}

TEST_F(Shared, ShardedCheckpointKnowsItsFiles) {
  const auto catalog = open_catalog(folder + "/oracle/checkpoints/qwen3_moe_bf16_sharded");
  ASSERT_TRUE(catalog.ok()) << catalog.error().message;
  EXPECT_EQ(catalog->files().size(), 3u);
}

std::vector<std::byte> bytes_of(const TensorCatalog& catalog, const std::string& name) {
  const TensorInfo* tensor = catalog.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<std::byte> bytes(static_cast<size_t>(tensor->bytes));
  EXPECT_TRUE(catalog.read(*tensor, 0, bytes).ok());
  return bytes;
}

// Block bytes and the values that gguf-py gives for them, for every type of GGML (tests/data/README.md): three rows of
// 512, which are converted, and packed and expanded again.
void expect_reference_values(const TensorCatalog& catalog, const DTypeInfo& type) {
  constexpr int64_t kRows = 3, kInputs = 512;
  const std::string name(type.name);
  const std::vector<std::byte> bytes = bytes_of(catalog, name + ".raw"), want = bytes_of(catalog, name + ".f32");
  std::vector<float> got(static_cast<size_t>(kRows * kInputs));
  ASSERT_EQ(want.size(), got.size() * sizeof(float)) << name;
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), kRows * kInputs / type.block_elements * type.block_bytes) << name;
  convert_to_f32(type.dtype, bytes.data(), kRows * kInputs, got.data());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0) << name << " converted";

  const auto encoding = encoding_for(type.dtype);
  ASSERT_TRUE(encoding) << name;
  std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(*encoding, kRows, kInputs)));
  pack_rows(type.dtype, bytes.data(), 0, kRows, kRows, kInputs, packed.data());
  std::fill(got.begin(), got.end(), -1.0f);
  for (int64_t row = 0; row < kRows; ++row)
    unpack_row({*encoding, kRows, kInputs, packed.data()}, row, got.data() + row * kInputs);
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0) << name << " packed";
}

int expect_reference_values(const std::string& path) {
  const auto catalog = open_catalog(path);
  EXPECT_TRUE(catalog.ok()) << catalog.error().message;
  int compared = 0;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const DTypeInfo& type = info(static_cast<DType>(i));
    if (!type.readable || catalog->find(std::string(type.name) + ".raw") == nullptr) continue;
    expect_reference_values(*catalog, type);
    ++compared;
  }
  return compared;
}

TEST(QuantVectors, ConversionsEqualTheReferenceBitForBit) {
  EXPECT_EQ(expect_reference_values(std::string(COLIBRI_SOURCE_DIR) + "/tests/data/quant_vectors.safetensors"), 24);
}

TEST_F(Shared, ConversionsEqualTheReferenceBitForBit) {
  EXPECT_GE(expect_reference_values(folder + "/oracle/quant_vectors.safetensors"), 24);
}

}  // namespace
}  // namespace colibri::formats
