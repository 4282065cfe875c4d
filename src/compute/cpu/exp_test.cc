// exp and tanh against double precision, over their whole ranges. Equality with the other levels: equality_test.cc.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/cpu/kernels/vec_scalar.h"
// The vector type comes first: math_inl.h is written over it.
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

using Function = F32x16 (*)(F32x16);

float value_of(Function function, float x) {
  float lanes[16];
  store(lanes, function(broadcast(x)));
  return lanes[7];
}

/// Units in the last place between what comes out and the exact value, the largest over 16 numbers.
double worst_of(Function function, double (*exact_function)(double), const float (&x)[16]) {
  float y[16];
  store(y, function(load(x)));
  double worst = 0;
  for (int i = 0; i < 16; ++i) {
    const double exact = exact_function(static_cast<double>(x[i]));
    const float nearest = std::abs(static_cast<float>(exact));
    const double ulp = static_cast<double>(std::nextafterf(nearest, INFINITY)) - static_cast<double>(nearest);
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / ulp);
  }
  return worst;
}

/// The largest over [low, high], and over magnitudes down to 1e-10 on both sides of 0.
double worst_over(Function function, double (*exact)(double), double low, double high) {
  double worst = 0;
  float x[16];
  for (int step = 0; step < 34000; ++step) {
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(low + (16 * step + i) * (high - low) / (16 * 34000));
    worst = std::max(worst, worst_of(function, exact, x));
  }
  for (int step = 0; step < 500; ++step) {
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(std::pow(1.003, -16 * step - i) * (i % 2 == 0 ? 1 : -1));
    worst = std::max(worst, worst_of(function, exact, x));
  }
  return worst;
}

float exponential_of(float x) { return value_of(exponential, x); }
float hyperbolic_tangent_of(float x) { return value_of(hyperbolic_tangent, x); }

TEST(Exponential, IsWithinElevenTenthsOfAUnitInTheLastPlace) {
  EXPECT_LT(worst_over(exponential, std::exp, -87.3, 88.7), 1.1);
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

TEST(HyperbolicTangent, IsWithinOneAndAHalfUnitsInTheLastPlace) {
  EXPECT_LT(worst_over(hyperbolic_tangent, std::tanh, -10, 10), 1.5);
  EXPECT_LT(worst_over(hyperbolic_tangent, std::tanh, 0.55, 0.75), 1.5);
}

TEST(HyperbolicTangent, EndsOfTheRange) {
  EXPECT_EQ(hyperbolic_tangent_of(0.0f), 0.0f);
  EXPECT_EQ(hyperbolic_tangent_of(0x1p-149f), 0x1p-149f);
  for (const float large : {10.0f, 0x1.fffffep127f, INFINITY}) {
    EXPECT_EQ(hyperbolic_tangent_of(large), 1.0f);
    EXPECT_EQ(hyperbolic_tangent_of(-large), -1.0f);
  }
  EXPECT_TRUE(std::isnan(hyperbolic_tangent_of(NAN)));
}

}  // namespace
}  // namespace colibri::compute
