#include "platform/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <sstream>
#include <string>

#include "platform/posix/cgroup.h"

namespace colibri::platform {
namespace {

// The kernel's own list; it hides features whose registers it does not save.
bool kernel_lists(const std::string& flag) {
  std::istringstream words(read_system_file("/proc/cpuinfo"));
  for (std::string word; words >> word;)
    if (word == flag) return true;
  return false;
}

TEST(Cpu, FeaturesAgreeWithTheKernel) {
  if (!kernel_lists("fpu")) GTEST_SKIP() << "not an x86 kernel";
  const CpuFeatures& f = cpu_features();
  EXPECT_EQ(f.sse41, kernel_lists("sse4_1"));
  EXPECT_EQ(f.avx2, kernel_lists("avx2") && kernel_lists("fma") && kernel_lists("f16c"));
  EXPECT_EQ(f.avx_vnni, kernel_lists("avx_vnni"));
  EXPECT_EQ(f.avx512, kernel_lists("avx512f") && kernel_lists("avx512bw") && kernel_lists("avx512dq") &&
                          kernel_lists("avx512vl"));
  EXPECT_EQ(f.avx512_vnni, f.avx512 && kernel_lists("avx512_vnni"));
  EXPECT_EQ(f.amx_int8, kernel_lists("amx_int8") && kernel_lists("amx_tile"));
}

TEST(Cpu, TilesArePermittedOnlyWhereTheProcessorHasThem) {
  const bool permitted = tiles_permitted();
  EXPECT_EQ(tiles_permitted(), permitted) << "asked once";
  if (!cpu_features().amx_int8) {
    EXPECT_FALSE(permitted);
  }
}

TEST(Cpu, AffinityBoundsTheCores) {
  const int cores = usable_cores();
  EXPECT_GE(cores, 1);
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LE(cores, CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace colibri::platform
