// The exponential and the hyperbolic tangent against double precision, over its whole range. Equality with the other
// levels: equality_test.cc.
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

/// Units in the last place between e^x and what comes out, the largest over 16 numbers.
double worst_of(const float (&x)[16]) {
  float y[16];
  store(y, exponential(load(x)));
  double worst = 0;
  for (int i = 0; i < 16; ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    const auto nearest = static_cast<float>(exact);
    const double ulp = static_cast<double>(std::nextafterf(nearest, INFINITY)) - static_cast<double>(nearest);
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / ulp);
  }
  return worst;
}

TEST(Exponential, IsWithinElevenTenthsOfAUnitInTheLastPlace) {
  double worst = 0;
  float x[16];
  for (int step = 0; step < 34000; ++step) {
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(-87.3 + (16 * step + i) * (88.7 + 87.3) / (16 * 34000));
    worst = std::max(worst, worst_of(x));
  }
  for (int step = 0; step < 500; ++step) {
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(std::pow(1.003, -16 * step - i) * (i % 2 == 0 ? 1 : -1));
    worst = std::max(worst, worst_of(x));
  }
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

float tangent_of(float x) {
  float lanes[16];
  store(lanes, hyperbolic_tangent(broadcast(x)));
  return lanes[7];
}

TEST(HyperbolicTangent, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (int step = 0; step < 400000; ++step) {
    const float x = std::ldexp(1.0f + 0x1p-10f * static_cast<float>(step % 1021), step / 1021 % 28 - 23) *
                    (step % 2 == 0 ? 1.0f : -1.0f);
    const double exact = std::tanh(static_cast<double>(x));
    const float nearest = std::abs(static_cast<float>(exact));
    const double ulp = static_cast<double>(nearest) - static_cast<double>(std::nextafterf(nearest, 0.0f));
    worst = std::max(worst, std::abs(static_cast<double>(tangent_of(x)) - exact) / ulp);
  }
  EXPECT_LT(worst, 2.0);
}

TEST(HyperbolicTangent, EndsOfTheRange) {
  EXPECT_EQ(tangent_of(0.0f), 0.0f);
  EXPECT_EQ(tangent_of(0x1p-149f), 0x1p-149f);
  EXPECT_EQ(tangent_of(INFINITY), 1.0f);
  EXPECT_EQ(tangent_of(-INFINITY), -1.0f);
  EXPECT_EQ(tangent_of(-0x1.fffffep127f), -1.0f);
  EXPECT_TRUE(std::isnan(tangent_of(NAN)));
}

}  // namespace
}  // namespace colibri::compute
