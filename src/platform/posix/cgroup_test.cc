#include "platform/posix/cgroup.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace colibri::platform {
namespace {

using Folders = std::vector<std::string>;

constexpr const char* kV2Mounts =
    "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1Mounts =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(CgroupFolders, V2WalksUpToTheMount) {
  EXPECT_EQ(cgroup_folders(kV2Mounts, "0::/user.slice/job\n", "memory"),
            (Folders{"/sys/fs/cgroup/user.slice/job", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}));
  EXPECT_EQ(cgroup_folders(kV2Mounts, "0::/\n", "cpu"), Folders{"/sys/fs/cgroup"});
}

TEST(CgroupFolders, V1FindsTheControllerAmongItsNeighbours) {
  const char* own = "4:memory:/a\n1:cpu,cpuacct:/b\n0::/\n";
  EXPECT_EQ(cgroup_folders(kV1Mounts, own, "memory"),
            (Folders{"/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"}));
  EXPECT_EQ(cgroup_folders(kV1Mounts, own, "cpu").front(), "/sys/fs/cgroup/cpu,cpuacct/b");
  EXPECT_EQ(cgroup_folders(kV1Mounts, own, "cpuacc"), Folders{"/sys/fs/cgroup/unified"});
}

TEST(CgroupFolders, AContainersMountShowsOnlyItsPartOfTheTree) {
  const char* mounts = "35 31 0:32 /docker/12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(cgroup_folders(mounts, "4:memory:/docker/12/sub\n", "memory"),
            (Folders{"/sys/fs/cgroup/memory/sub", "/sys/fs/cgroup/memory"}));
  EXPECT_EQ(cgroup_folders(mounts, "4:memory:/docker/123\n", "memory"), Folders{"/sys/fs/cgroup/memory"});
}

TEST(CgroupFolders, OddTextsGiveNothing) {
  EXPECT_EQ(cgroup_folders("", "", "memory"), Folders{});
  EXPECT_EQ(cgroup_folders("1 2 - \n\n- cgroup2 x y", "0::\n::\n0", "memory"), Folders{});
  EXPECT_EQ(cgroup_folders(kV2Mounts, "0::/../../outside\n", "memory"), Folders{"/sys/fs/cgroup"});
}

class CgroupFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "colibri-cgroup-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root = pattern;
    child = root + "/child";
    std::filesystem::create_directory(child);
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  static void write(const std::string& folder, const char* name, const char* text) {
    std::ofstream(folder + "/" + name) << text;
  }
  Folders folders() const { return {child, root}; }

  std::string root, child;
};

TEST_F(CgroupFiles, V2MemoryIsTheTightestOfTheChain) {
  write(child, "memory.max", "max\n");
  write(child, "memory.current", "100\n");
  EXPECT_EQ(CgroupMemory(folders()).headroom(), std::nullopt);
  write(root, "memory.max", "1000\n");
  write(root, "memory.current", "600\n");
  write(root, "memory.stat", "anon 300\ninactive_file 200\nactive_file 50\n");
  EXPECT_EQ(CgroupMemory(folders()).headroom(), 650);  // page cache counts as free
  write(child, "memory.high", "150\n");
  EXPECT_EQ(CgroupMemory(folders()).headroom(), 50);
  write(child, "memory.current", "999\n");
  EXPECT_EQ(CgroupMemory(folders()).headroom(), -849);
}

TEST_F(CgroupFiles, V1MemoryAndItsHugeNumberForNoLimit) {
  write(child, "memory.limit_in_bytes", "9223372036854771712\n");
  write(child, "memory.usage_in_bytes", "5\n");
  EXPECT_EQ(CgroupMemory(folders()).headroom(), std::nullopt);
  write(root, "memory.limit_in_bytes", "1000\n");
  write(root, "memory.usage_in_bytes", "500\n");
  write(root, "memory.stat", "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 0\n");
  EXPECT_EQ(CgroupMemory(folders()).headroom(), 600);
}

TEST_F(CgroupFiles, ALimitThatIsLoweredLaterIsSeenAsDebt) {
  write(child, "memory.max", "1000\n");
  write(child, "memory.high", "max\n");
  write(child, "memory.current", "700\n");
  write(child, "memory.stat", "anon 600\ninactive_file 100\n");
  const CgroupMemory memory(folders());
  EXPECT_EQ(memory.headroom(), 400);
  write(child, "memory.high", "500\n");
  EXPECT_EQ(memory.headroom(), -100);
  write(child, "memory.high", "max\n");
  write(child, "memory.max", "max\n");
  EXPECT_EQ(memory.headroom(), std::nullopt);
}

TEST_F(CgroupFiles, CpuQuotaRoundsUp) {
  EXPECT_EQ(cgroup_cpus(folders()), std::nullopt);
  write(child, "cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpus(folders()), std::nullopt);
  write(root, "cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_cpus(folders()), 3);
  write(child, "cpu.max", "1000 100000\n");
  EXPECT_EQ(cgroup_cpus(folders()), 1);
}

TEST_F(CgroupFiles, CpuQuotaOfV1) {
  write(child, "cpu.cfs_quota_us", "-1\n");
  write(child, "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpus(folders()), std::nullopt);
  write(child, "cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(cgroup_cpus(folders()), 2);
}

TEST_F(CgroupFiles, TextsLongerThanTheMemoryForThemAreCut) {
  write(root, "long", std::string(10000, 'x').c_str());
  char buffer[6000];
  EXPECT_EQ(read_system_file(root + "/long", buffer), std::string(6000, 'x'));
  EXPECT_EQ(read_system_file(root + "/long").size(), 10000u);
  EXPECT_EQ(read_system_file(root + "/none", buffer), "");
}

TEST(FindNumber, TakesWholeKeysOnly) {
  EXPECT_EQ(find_number("VmHWMx: 1\nVmHWM:\t123456789 kB\n", "VmHWM:"), 123456789);
  EXPECT_EQ(find_number("a 1\n", "b"), std::nullopt);
  EXPECT_EQ(find_number("a x\n", "a"), std::nullopt);
}

}  // namespace
}  // namespace colibri::platform
