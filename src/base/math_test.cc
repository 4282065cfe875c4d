#include "base/math.h"

#include <gtest/gtest.h>

#include <cmath>

namespace colibri {
namespace {

void expect_close(double got, double want, double relative) {
  EXPECT_NEAR(got, want, relative * std::max(1.0, std::fabs(want)));
}

TEST(ExactMath, AgreesWithLibmOnTheRangesThatModelsUse) {
  for (double x = -60; x < 60; x += 0.0137) expect_close(exact_exp(x) / std::exp(x), 1.0, 1e-13);
  for (double x = 1e-6; x < 1e9; x *= 1.0173) expect_close(exact_log(x), std::log(x), 1e-14);
  for (double e = 0; e < 1; e += 0.0071) expect_close(exact_pow(1e6, -e) / std::pow(1e6, -e), 1.0, 1e-13);
  for (double x = 0; x < 2e6; x = x * 1.003 + 0.01) {
    EXPECT_NEAR(exact_sin(x), std::sin(x), 1e-13) << x;
    EXPECT_NEAR(exact_cos(x), std::cos(x), 1e-13) << x;
  }
}

}  // namespace
}  // namespace colibri
