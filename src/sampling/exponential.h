// The exponential of the sampler and of log probabilities: the same bits on every machine.
//
// Thread-safety: a pure function.
#pragma once

#include <bit>
#include <cstdint>

namespace colibri::sampling {

/// exp(x) for x <= 0 from additions and multiplications alone: x = n ln 2 + r with |r| <= ln 2 / 2, and the Taylor
/// polynomial of degree 11 in r. Relative error below 1e-14. Below -50 the result is 0: so little, even a million
/// times, is less than a draw can resolve. No branches, so that compilers can do several at once.
inline double exp_of_negative(double x) {
  constexpr double kInvLn2 = 1.44269504088896338700;
  constexpr double kLn2High = 6.93147180369123816490e-01;  // few bits: n * kLn2High is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52: what is added to it gets rounded to an integer
  const double bounded = x > -50.0 ? x : -50.0;
  const double shifted = bounded * kInvLn2 + kRounder;
  const double n = shifted - kRounder;
  const double r = (bounded - n * kLn2High) - n * kLn2Low;
  double sum = 1.0 / 39916800;
  for (const double c :
       {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) {
    sum = sum * r + c;
  }
  const double power_of_two = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
  return x > -50.0 ? sum * power_of_two : 0.0;
}

}  // namespace colibri::sampling
