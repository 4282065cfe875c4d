#include "common/output.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "safetensors_writer.h"

namespace colibri::cli {
namespace {

namespace fs = std::filesystem;

class OutputTest : public testing::Test {
 protected:
  void SetUp() override {
    folder = fs::path(testing::TempDir()) /
             ("colibri_output_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {})); }

  fs::path folder;
};

TEST_F(OutputTest, NothingIsThereBeforeCommitAndAllOfItAfterwards) {
  auto file = OutputFile::create(path("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("hello").ok());
  EXPECT_FALSE(fs::exists(path("a")));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ("hello", content(path("a")));
  EXPECT_EQ(1U, files());
}

TEST_F(OutputTest, WithoutCommitTheOldFileStaysAndNothingElse) {
  std::ofstream(path("a")) << "old";
  {
    auto file = OutputFile::create(path("a"));
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write(std::string(200000, 'x')).ok());
  }
  EXPECT_EQ("old", content(path("a")));
  EXPECT_EQ(1U, files());
}

TEST_F(OutputTest, ALinkStaysALink) {
  std::ofstream(path("target")) << "old";
  fs::create_symlink("target", path("link"));
  auto file = OutputFile::create(path("link"));
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("new").ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ("new", content(path("target")));
}

TEST_F(OutputTest, FilesHaveTheModeThatTheMaskAllows) {
  const mode_t mask = umask(027);
  auto file = OutputFile::create(path("a"));
  umask(mask);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->commit().ok());
  struct stat info {};
  ASSERT_EQ(0, stat(path("a").c_str(), &info));
  EXPECT_EQ(0640U, info.st_mode & 0777U);
}

TEST_F(OutputTest, APipeIsRefusedWhenTheStartComesLast) {
  ASSERT_EQ(0, mkfifo(path("pipe").c_str(), 0600));
  const auto file = OutputFile::create(path("pipe"), OutputFile::Order::kStartComesLast);  // must not wait for a reader
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(2, file.error().exit_code());
  EXPECT_NE(std::string::npos, file.error().message.find(path("pipe")));
  EXPECT_TRUE(OutputFile::create("/dev/null", OutputFile::Order::kStartComesLast).ok());
}

TEST_F(OutputTest, AFullDiskIsReportedWithTheName) {
  auto file = OutputFile::create("/dev/full");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write("x").ok());  // buffered
  const Status done = file->commit();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(5, done.error().exit_code());
  EXPECT_NE(std::string::npos, done.error().message.find("/dev/full"));
}

TEST_F(OutputTest, SafetensorsHeaderIsSortedAlignedAndGapless) {
  auto output = OutputFile::create(path("t"));
  ASSERT_TRUE(output.ok());
  auto writer = SafetensorsWriter::create(std::move(*output), 2, 8);
  ASSERT_TRUE(writer.ok());
  const float values[] = {1, 2, 3};
  const int32_t ids[] = {7};
  writer->begin("z", "F32", {1, 3});
  ASSERT_TRUE(writer->append(values, 8).ok());
  ASSERT_TRUE(writer->append(values + 2, 4).ok());
  writer->begin("a", "I32", {1});
  ASSERT_TRUE(writer->append(ids, 4).ok());
  ASSERT_TRUE(writer->finish().ok());

  const std::string bytes = content(path("t"));
  uint64_t header = 0;
  memcpy(&header, bytes.data(), sizeof(header));
  EXPECT_EQ(0U, header % 8);
  ASSERT_EQ(8 + header + 16, bytes.size());
  const std::string text = bytes.substr(8, header);
  EXPECT_EQ(
      R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[12,16]},"z":{"dtype":"F32","shape":[1,3],"data_offsets":[0,12]}})",
      text.substr(0, text.find_last_not_of(' ') + 1));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(values), 12), bytes.substr(8 + header, 12));
}

TEST_F(OutputTest, SafetensorsHeaderThatOutgrowsItsRoomIsAnError) {
  auto output = OutputFile::create(path("t"));
  auto writer = SafetensorsWriter::create(std::move(*output), 1, 4);
  ASSERT_TRUE(writer.ok());
  for (int i = 0; i < 10; ++i) writer->begin("tensor" + std::to_string(i), "F32", {0});
  EXPECT_FALSE(writer->finish().ok());
  EXPECT_FALSE(fs::exists(path("t")));
}

}  // namespace
}  // namespace colibri::cli
