#include "platform/disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

namespace colibri::platform {
namespace {

class Disk : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("colibri_disk_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(size_t bytes) {
    std::ofstream(path_, std::ios::binary) << std::string(bytes, 'x');
    const int fd = ::open(path_.c_str(), O_RDONLY);
    ::fsync(fd);  // what is not on the disk yet stays in memory
    ::close(fd);
  }
  void forget() {
    const int fd = ::open(path_.c_str(), O_RDONLY);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
  // Pages of the file in the page cache.
  int64_t cached_pages() const {
    const auto size = static_cast<size_t>(std::filesystem::file_size(path_));
    const int fd = ::open(path_.c_str(), O_RDONLY);
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    std::vector<unsigned char> pages((size + 4095) / 4096);
    ::mincore(map, size, pages.data());
    ::munmap(map, size);
    ::close(fd);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
  }
  FileRange range(int64_t offset, int64_t bytes) const { return {path_.string(), offset, bytes}; }

  std::filesystem::path path_;
};

constexpr int64_t kMebi = 1 << 20;

TEST_F(Disk, FilesOfAnySizeAreReadAtLeastOnceEachWay) {
  for (const size_t bytes : {size_t{1}, size_t{5000}, (size_t{9} << 20) + 77}) {
    write(bytes);
    const auto speed = measure_disk(path_.string());
    ASSERT_TRUE(speed.ok()) << speed.error().message;
    EXPECT_GT(speed->bytes, 0);
    EXPECT_GT(speed->sequential_bytes_per_second, 0);
    EXPECT_GT(speed->random_bytes_per_second, 0);
  }
}

TEST_F(Disk, WhatCannotBeReadIsAnErrorWithItsName) {
  const auto missing = measure_disk(path_.string());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidModel);
  write(0);
  const auto empty = measure_disk(path_.string());
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code, ErrorCode::kUsage);
  EXPECT_NE(empty.error().message.find(path_.string()), std::string::npos);
}

TEST_F(Disk, ReadsOfAStoreEndAtTheirLimits) {
  write(16 * kMebi + 77);
  const std::vector<FileRange> ranges{range(100, 3 * kMebi), range(0, 0), range(8 * kMebi, 8 * kMebi + 77)};
  for (const bool direct : {true, false}) {
    for (const int in_flight : {1, 3}) {
      ReadPattern pattern{kMebi, in_flight, direct, 5 * kMebi, std::chrono::seconds(100)};
      const auto speed = measure_reads(ranges, pattern);
      ASSERT_TRUE(speed.ok()) << speed.error().message;
      EXPECT_EQ(speed->bytes, 5 * kMebi);
      EXPECT_TRUE(direct || !speed->direct);
      EXPECT_GT(speed->bytes_per_second, 0);
      EXPECT_GT(speed->latency_seconds, 0);
      pattern.longest = std::chrono::milliseconds(0);
      EXPECT_LE(measure_reads(ranges, pattern)->bytes, in_flight * kMebi);
    }
  }
}

TEST_F(Disk, RangesSmallerThanAPieceAndABlockAreRead) {
  write(5000);
  for (const FileRange& small : {range(0, 1), range(4999, 1), range(4090, 12), range(0, 5000)}) {
    const auto speed = measure_reads(std::vector{small}, {kMebi, 2, true, kMebi, std::chrono::milliseconds(1)});
    ASSERT_TRUE(speed.ok()) << speed.error().message;
    EXPECT_GT(speed->bytes, 0);
    EXPECT_LE(speed->bytes, kMebi + 8192);
  }
}

TEST_F(Disk, BufferedReadsLeaveThePageCacheAsItWas) {
  write(16 * kMebi);
  forget();
  if (cached_pages() != 0) GTEST_SKIP() << "this file system keeps its files in memory";
  const auto speed = measure_reads(std::vector{range(0, 16 * kMebi)}, {kMebi, 2, false, 4 * kMebi});
  ASSERT_TRUE(speed.ok()) << speed.error().message;
  EXPECT_FALSE(speed->direct);
  EXPECT_EQ(speed->cached_bytes, 0);
  // Pages that the system is still reading ahead, or holds for a moment, cannot be forgotten: a window for each reader.
  EXPECT_LE(cached_pages(), 64);
}

TEST_F(Disk, WhatMemoryAnsweredIsReportedAndStaysThere) {
  write(4 * kMebi);
  std::ifstream(path_, std::ios::binary).ignore(std::numeric_limits<std::streamsize>::max());
  const int64_t before = cached_pages();
  const auto speed = measure_reads(std::vector{range(0, 4 * kMebi)}, {kMebi, 1, false, 2 * kMebi});
  ASSERT_TRUE(speed.ok()) << speed.error().message;
  if (speed->cached_bytes == 0) GTEST_SKIP() << "this file system does not tell what is in memory";
  EXPECT_EQ(speed->cached_bytes, speed->bytes);
  EXPECT_EQ(cached_pages(), before);
}

TEST_F(Disk, RangesThatMakeNoSenseAreRefused) {
  write(100);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const std::vector<std::vector<FileRange>> cases = {
      {}, {range(0, 0)}, {range(50, 51)}, {range(-1, 1)}, {range(0, -1)}, {range(kHuge, kHuge)}};
  for (const std::vector<FileRange>& ranges : cases) {
    const auto speed = measure_reads(ranges, {});
    ASSERT_FALSE(speed.ok());
    EXPECT_EQ(speed.error().code, ErrorCode::kUsage) << speed.error().message;
  }
  const auto missing = measure_reads(std::vector{FileRange{path_.string() + "-none", 0, 1}}, {});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidModel);
}

}  // namespace
}  // namespace colibri::platform
