#include "base/math.h"

#include <bit>
#include <cstdint>

namespace colibri {
namespace {

// ln 2 in two parts: the first has few bits, so that n * kLn2High is exact.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kInvLn2 = 1.44269504088896338700e+00;

// pi / 2 in three parts of 33 bits and less, so that n * part is exact for n < 2^20 (Cody and Waite).
constexpr double kHalfPi1 = 1.57079632673412561417e+00;
constexpr double kHalfPi2 = 6.07710050630396597660e-11;
constexpr double kHalfPi3 = 2.02226624879595063154e-21;
constexpr double kTwoOverPi = 6.36619772367581382433e-01;

int64_t round_to_integer(double x) { return static_cast<int64_t>(x < 0 ? x - 0.5 : x + 0.5); }

double power_of_two(int64_t n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// Taylor series on |r| <= pi / 4.
double sin_series(double r) {
  const double z = r * r;
  double sum = 0;
  for (int k = 21; k >= 3; k -= 2) sum = (1.0 + sum) * (-z / (k * (k - 1)));
  return r * (1.0 + sum);
}

double cos_series(double r) {
  const double z = r * r;
  double sum = 0;
  for (int k = 22; k >= 2; k -= 2) sum = (1.0 + sum) * (-z / (k * (k - 1)));
  return 1.0 + sum;
}

// sin(x + quarter_turns * pi / 2).
double sin_of_turn(double x, int64_t quarter_turns) {
  const int64_t n = round_to_integer(x * kTwoOverPi);
  const auto d = static_cast<double>(n);
  const double r = ((x - d * kHalfPi1) - d * kHalfPi2) - d * kHalfPi3;
  switch ((n + quarter_turns) & 3) {
    case 0:
      return sin_series(r);
    case 1:
      return cos_series(r);
    case 2:
      return -sin_series(r);
    default:
      return -cos_series(r);
  }
}

}  // namespace

double exact_exp(double x) {
  const int64_t n = round_to_integer(x * kInvLn2);
  const auto d = static_cast<double>(n);
  const double r = (x - d * kLn2High) - d * kLn2Low;
  double sum = 1.0;
  for (int k = 18; k >= 1; --k) sum = 1.0 + sum * r / k;
  return sum * power_of_two(n);
}

double exact_log(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log m = 2 atanh((m - 1) / (m + 1)); |t| <= 0.1716, so t^2 shrinks each term thirtyfold.
  const double t = (mantissa - 1.0) / (mantissa + 1.0);
  const double z = t * t;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  const auto e = static_cast<double>(exponent);
  return e * kLn2High + (2.0 * t * sum + e * kLn2Low);
}

double exact_pow(double base, double e) { return exact_exp(e * exact_log(base)); }
double exact_sin(double x) { return sin_of_turn(x, 0); }
double exact_cos(double x) { return sin_of_turn(x, 1); }

}  // namespace colibri
