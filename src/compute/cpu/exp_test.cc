// The exponential against double precision, over its whole range. Equality with the other levels: equality_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/cpu/kernels/vec_scalar.h"
// The vector type comes first: math_inl.h is written over it.
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

float exponential_of(float x) {
  float lanes[16];
  store(lanes, exponential(broadcast(x)));
  return lanes[7];
}

double ulps_off(float x) {
  const double exact = std::exp(static_cast<double>(x));
  const auto nearest = static_cast<float>(exact);
  const double ulp = static_cast<double>(std::nextafterf(nearest, INFINITY)) - static_cast<double>(nearest);
  return std::abs(static_cast<double>(exponential_of(x)) - exact) / ulp;
}

TEST(Exponential, IsWithinElevenTenthsOfAUnitInTheLastPlace) {
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.000317) worst = std::max(worst, ulps_off(static_cast<float>(x)));
  for (double x = 1e-10; x < 1; x *= 1.003)
    worst = std::max({worst, ulps_off(static_cast<float>(x)), ulps_off(static_cast<float>(-x))});
  EXPECT_LT(worst, 1.1);
}

TEST(Exponential, EndsOfTheRange) {
  EXPECT_EQ(exponential_of(0.0f), 1.0f);
  EXPECT_EQ(exponential_of(-0.0f), 1.0f);
  EXPECT_EQ(exponential_of(-INFINITY), 0.0f);
  EXPECT_EQ(exponential_of(-0x1.fffffep127f), 0.0f);
  EXPECT_EQ(exponential_of(-87.34f), 0.0f);
  EXPECT_EQ(exponential_of(INFINITY), INFINITY);
  EXPECT_EQ(exponential_of(88.73f), INFINITY);
  EXPECT_TRUE(std::isnan(exponential_of(NAN)));
  EXPECT_TRUE(std::isfinite(exponential_of(kExpHigh)));
  EXPECT_GE(exponential_of(kExpLow), 0x1p-126f);
}

}  // namespace
}  // namespace colibri::compute
