#include "platform/system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/cpu.h"
#include "platform/disk.h"

namespace colibri::platform {
namespace {

TEST(System, FactsAreThoseOfThisMachine) {
  const SystemFacts facts = system_facts();
  EXPECT_GE(facts.online_cores, usable_cores());
  EXPECT_GT(facts.total_memory, int64_t{64} << 20);
  EXPECT_NE(facts.open_files, 0);
  EXPECT_TRUE(facts.kernel.starts_with("Linux ")) << facts.kernel;
}

TEST(System, TheChosenWordStandsInBrackets) {
  EXPECT_EQ(chosen_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_word("[always] madvise never\n"), "always");
  EXPECT_EQ(chosen_word("always"), "");
  EXPECT_EQ(chosen_word("] ["), "");
  EXPECT_EQ(chosen_word(""), "");
}

TEST(Environment, VariablesThatAreNotSetAreEmpty) {
  ASSERT_EQ(::setenv("SYSTEM_TEST_VARIABLE", "some value", 1), 0);
  EXPECT_EQ(environment_variable("SYSTEM_TEST_VARIABLE"), "some value");
  ASSERT_EQ(::unsetenv("SYSTEM_TEST_VARIABLE"), 0);
  EXPECT_EQ(environment_variable("SYSTEM_TEST_VARIABLE"), "");
}

class Disk : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("colibri_disk_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(size_t bytes) { std::ofstream(path_, std::ios::binary) << std::string(bytes, 'x'); }
  std::filesystem::path path_;
};

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

}  // namespace
}  // namespace colibri::platform
