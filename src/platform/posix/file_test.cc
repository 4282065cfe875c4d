#include "platform/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "platform/posix/read_fully.h"

namespace colibri::platform {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "colibri-file-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const char* name) const { return join(folder, name); }
  void write(const char* name, const std::string& text) const { std::ofstream(path(name), std::ios::binary) << text; }

  std::string folder;
};

std::string read(const File& file, int64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  const Status status = file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return status.ok() ? text : "error: " + status.error().message;
}

TEST_F(FileTest, ReadsAnyRange) {
  write("a", "0123456789");
  auto file = File::open(path("a"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->size_bytes(), 10);
  EXPECT_EQ(read(*file, 3, 4), "3456");
  EXPECT_EQ(read(*file, 10, 0), "");
  File moved = std::move(*file);
  EXPECT_EQ(read(moved, 0, 10), "0123456789");
}

TEST_F(FileTest, MissingFolderAndFifoAreNamed) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  for (const auto& [name, words] :
       {std::pair{"none", "No such file"}, {"", "folder"}, {"fifo", "not a regular file"}}) {
    const auto file = File::open(path(name));
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().code, ErrorCode::kInvalidModel);
    EXPECT_NE(file.error().message.find(words), std::string::npos) << file.error().message;
    EXPECT_NE(file.error().message.find(folder), std::string::npos) << file.error().message;
  }
}

TEST_F(FileTest, TruncationAfterOpeningIsAnErrorNotGarbage) {
  write("a", "0123456789");
  auto file = File::open(path("a"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path("a").c_str(), 6), 0);
  EXPECT_EQ(read(*file, 2, 4), "2345");
  const std::string message = read(*file, 4, 4);
  EXPECT_NE(message.find("ends at 6, it was truncated (it had 10 when opened)"), std::string::npos) << message;
}

TEST_F(FileTest, TextFilesHaveALimit) {
  write("a", "hello");
  EXPECT_EQ(*read_text_file(path("a"), 5), "hello");
  const auto refused = read_text_file(path("a"), 4);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("is 5 bytes, at most 4"), std::string::npos) << refused.error().message;
}

TEST_F(FileTest, ListsSorted) {
  write("b", "");
  write("a", "");
  EXPECT_EQ(*list_directory(folder), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(list_directory(path("none")).ok());
}

TEST_F(FileTest, AWriterLeavesTheOldFileUntilItCommits) {
  write("out", "old");
  {
    auto writer = FileWriter::create(path("out"));
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    ASSERT_TRUE(writer->append("half").ok());
  }
  EXPECT_EQ(*read_text_file(path("out"), 100), "old");
  auto writer = FileWriter::create(path("out"));
  ASSERT_TRUE(writer->append("new ").ok());
  ASSERT_TRUE(writer->append(std::as_bytes(std::span("text", 4))).ok());
  ASSERT_TRUE(writer->commit().ok());
  EXPECT_EQ(*read_text_file(path("out"), 100), "new text");
  EXPECT_EQ(list_directory(folder)->size(), 1u);
}

TEST_F(FileTest, AWriterKeepsLinksAndDevices) {
  write("target", "old");
  ASSERT_EQ(::symlink("target", path("link").c_str()), 0);
  auto link = FileWriter::create(path("link"));
  ASSERT_TRUE(link->append("new").ok() && link->commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(*read_text_file(path("target"), 100), "new");

  auto null = FileWriter::create("/dev/null");
  ASSERT_TRUE(null.ok()) << null.error().message;
  EXPECT_TRUE(null->append("x").ok() && null->commit().ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(FileTest, AFullDiskIsToldFromOtherFailures) {
  auto full = FileWriter::create("/dev/full");
  if (!full.ok()) GTEST_SKIP() << "no /dev/full here";
  const Status status = full->append("x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kDoesNotFit);
  EXPECT_EQ(FileWriter::create(path("no/such/folder")).error().code, ErrorCode::kIo);
}

// Two writers of one path, as two processes are: neither sees the other's bytes, the last commit stays.
TEST_F(FileTest, WritersOfOnePathDoNotMix) {
  auto first = FileWriter::create(path("out")), second = FileWriter::create(path("out"));
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->append("first, longer").ok() && second->append("second").ok());
  ASSERT_TRUE(second->commit().ok());
  EXPECT_EQ(*read_text_file(path("out"), 100), "second");
  ASSERT_TRUE(first->commit().ok());
  EXPECT_EQ(*read_text_file(path("out"), 100), "first, longer");
  EXPECT_EQ(list_directory(folder)->size(), 1u);
}

TEST_F(FileTest, CreatesTheFoldersThatAreMissing) {
  EXPECT_TRUE(create_folders(path("a/b/c/")).ok());
  EXPECT_TRUE(is_directory(path("a/b/c")));
  EXPECT_TRUE(create_folders(path("a/b")).ok());
  write("file", "");
  const Status blocked = create_folders(path("file/below"));
  ASSERT_FALSE(blocked.ok());
  EXPECT_EQ(blocked.error().code, ErrorCode::kIo);
  EXPECT_NE(blocked.error().message.find(path("file")), std::string::npos) << blocked.error().message;
}

TEST(Paths, JoinAndParent) {
  EXPECT_EQ(join("a/b", "c"), "a/b/c");
  EXPECT_EQ(join("a/", "c"), "a/c");
  EXPECT_EQ(join("", "c"), "c");
  EXPECT_EQ(parent("a/b/c"), "a/b");
  EXPECT_EQ(parent("c"), ".");
  EXPECT_EQ(parent("/c"), "/");
}

// A file of 10 bytes that gives at most 3 a call and is interrupted before each.
struct Unsteady {
  int calls = 0;
  int error = EINTR;
  ssize_t operator()(int, void* out, size_t bytes, off_t offset) {
    if (calls++ % 2 == 0) {
      errno = error;
      return -1;
    }
    const size_t n = std::min({bytes, size_t{3}, static_cast<size_t>(std::max<off_t>(0, 10 - offset))});
    std::memset(out, static_cast<int>('0' + offset), n);
    return static_cast<ssize_t>(n);
  }
};

TEST(ReadFully, LoopsOverShortReadsAndInterruptions) {
  std::string text(8, '?');
  Unsteady pread;
  const ReadOutcome outcome = read_fully(pread, 0, 1, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(outcome.bytes, 8);
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(text, "11144477");
}

TEST(ReadFully, StopsAtTheEndAndAtErrors) {
  std::string text(8, '?');
  Unsteady at_end;
  EXPECT_EQ(read_fully(at_end, 0, 5, std::as_writable_bytes(std::span(text))).bytes, 5);
  Unsteady broken{.error = EIO};
  const ReadOutcome outcome = read_fully(broken, 0, 0, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(outcome.error, EIO);
  EXPECT_EQ(outcome.bytes, 0);
}

TEST(ReadFully, EndlessInterruptionsEnd) {
  std::string text(8, '?');
  auto never = [](int, void*, size_t, off_t) -> ssize_t { return errno = EINTR, -1; };
  EXPECT_EQ(read_fully(never, 0, 0, std::as_writable_bytes(std::span(text))).error, EINTR);
}

}  // namespace
}  // namespace colibri::platform
