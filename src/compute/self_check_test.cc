#include <gtest/gtest.h>

#include <set>

#include "compute/backend.h"

namespace colibri::compute {
namespace {

void expect_all_equal(const std::vector<KernelReport>& reports) {
  std::set<std::string> levels, expected;
  for (const KernelReport& r : reports) {
    EXPECT_TRUE(r.equal) << r.isa << " " << r.operation << " " << r.encoding;
    EXPECT_GT(r.nanoseconds, 0);
    levels.insert(r.isa);
  }
  for (const IsaLevel& level : isa_levels())
    if (level.available) expected.insert(level.name);
  EXPECT_EQ(levels, expected);
}

TEST(SelfTest, EveryLevelPassesTheKernelCheck) {
  const auto reports = test_kernels();
  ASSERT_TRUE(reports.ok());
  expect_all_equal(*reports);
}

TEST(SelfTest, EveryLevelPassesTheRouterCheck) {
  const auto reports = test_router();
  ASSERT_TRUE(reports.ok());
  expect_all_equal(*reports);
}

}  // namespace
}  // namespace colibri::compute
