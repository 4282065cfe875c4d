#include "common/progress.h"

#include <gtest/gtest.h>

namespace colibri::common {
namespace {

TEST(Progress, ThePercentageIsThatOfTheNumbersBesideIt) {
  EXPECT_EQ("0 %", percentage(0, 7));
  EXPECT_EQ("42 %", percentage(3, 7));
  EXPECT_EQ("99 %", percentage(999999, 1000000));
  EXPECT_EQ("100 %", percentage(7, 7));
  EXPECT_EQ("99 %", percentage(UINT64_MAX - 1, UINT64_MAX));
}

}  // namespace
}  // namespace colibri::common
