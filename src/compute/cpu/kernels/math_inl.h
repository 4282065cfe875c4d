// exp, tanh, sigmoid, silu, softplus and the canonical sums, over the F32x16 of whichever vec_*.h was included before.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/macros.h"

namespace colibri::compute {
namespace {

COLIBRI_INLINE F32x16 lane_numbers() {
  static const float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(numbers);
}

/// Calls body(offset, lanes) for each run of up to 16 of n elements.
template <typename Body>
COLIBRI_INLINE void for_each_run(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, 16);
  if (i < n) body(i, n - i);
}
COLIBRI_INLINE F32x16 load_run(const float* p, int64_t lanes) { return lanes == 16 ? load(p) : load_partial(p, lanes); }
COLIBRI_INLINE void store_run(float* p, int64_t lanes, F32x16 x) {
  if (lanes == 16) {
    store(p, x);
  } else {
    store_partial(p, lanes, x);
  }
}

/// The fixed tree of backend.h: lanes are combined at distance 8, 4, 2, 1.
COLIBRI_INLINE float sum_of_lanes(F32x16 x) {
  x = add(x, swap_lanes<8>(x));
  x = add(x, swap_lanes<4>(x));
  x = add(x, swap_lanes<2>(x));
  return first_lane(add(x, swap_lanes<1>(x)));
}
COLIBRI_INLINE float maximum_of_lanes(F32x16 x) {
  x = maximum(x, swap_lanes<8>(x));
  x = maximum(x, swap_lanes<4>(x));
  x = maximum(x, swap_lanes<2>(x));
  return first_lane(maximum(x, swap_lanes<1>(x)));
}

// Bounds of exp: below the first a result would not be a normal float and becomes 0, above the second it overflows.
constexpr float kExpLow = -87.33654f;
constexpr float kExpHigh = 88.72283f;

/// e^x within 1.1 units in the last place for x <= kExpHigh; 0 below kExpLow.
/// x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2 q(r), q interpolated at the Chebyshev nodes of that range.
COLIBRI_INLINE F32x16 small_exponential(F32x16 x) {
  const F32x16 magic = broadcast(0x1.8p23f);  // adding it rounds to an integer, which the low bits then hold
  const F32x16 t = fma(x, broadcast(1.442695022e+00f), magic);
  const F32x16 n = sub(t, magic);
  // ln 2 = 6.931471825e-01 - 1.904654323e-09
  const F32x16 r = fma(n, broadcast(1.904654323e-09f), fma(n, broadcast(-6.931471825e-01f), x));
  F32x16 q = broadcast(1.392617589e-03f);
  q = fma(q, r, broadcast(8.363173343e-03f));
  q = fma(q, r, broadcast(4.166655615e-02f));
  q = fma(q, r, broadcast(1.666657776e-01f));
  q = fma(q, r, broadcast(5.000000000e-01f));
  const F32x16 power = add(fma(q, mul(r, r), r), broadcast(1.0f));
  return select_less(x, broadcast(kExpLow), zero(), scale_by_power(power, t));
}
/// The same, and infinity above kExpHigh.
COLIBRI_INLINE F32x16 exponential(F32x16 x) {
  return select_less(broadcast(kExpHigh), x, broadcast(__builtin_inff()), small_exponential(x));
}

/// 1 + e^-x: the denominator of sigmoid and silu.
COLIBRI_INLINE F32x16 one_plus_exp_minus(F32x16 x) { return add(broadcast(1.0f), exponential(sub(zero(), x))); }
COLIBRI_INLINE F32x16 silu(F32x16 x) { return div(x, one_plus_exp_minus(x)); }

/// log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|; log(1 + u) = 2 atanh(s), s = u / (2 + u) <= 1/3, whose series is
/// exact to the last place after eight terms.
COLIBRI_INLINE F32x16 softplus(F32x16 x) {
  const F32x16 u = exponential(sub(zero(), maximum(x, sub(zero(), x))));
  const F32x16 s = div(u, add(u, broadcast(2.0f))), square = mul(s, s);
  F32x16 series = broadcast(1.0f / 15.0f);
  COLIBRI_UNROLL
  for (int odd = 13; odd >= 1; odd -= 2) series = fma(series, square, broadcast(1.0f / static_cast<float>(odd)));
  return add(maximum(x, zero()), mul(add(s, s), series));
}

COLIBRI_INLINE F32x16 sigmoid(F32x16 x) { return div(broadcast(1.0f), one_plus_exp_minus(x)); }

/// tanh x within 1.5 units in the last place. Up to 5/8 it is x + x^3 q(x^2), q interpolated at the Chebyshev nodes of
/// that range; above, 1 - 2 / (1 + e^2x) loses nothing to cancellation.
COLIBRI_INLINE F32x16 hyperbolic_tangent(F32x16 x) {
  const F32x16 square = mul(x, x), size = maximum(x, sub(zero(), x));
  F32x16 q = broadcast(2.292744815e-03f);
  q = fma(q, square, broadcast(-8.343945257e-03f));
  q = fma(q, square, broadcast(2.176891826e-02f));
  q = fma(q, square, broadcast(-5.395925790e-02f));
  q = fma(q, square, broadcast(1.333330423e-01f));
  q = fma(q, square, broadcast(-3.333333433e-01f));
  const F32x16 small = fma(mul(x, square), q, x);
  const F32x16 large = sub(broadcast(1.0f), div(broadcast(2.0f), one_plus_exp_minus(mul(size, broadcast(-2.0f)))));
  return select_less(size, broadcast(0.625f), small, select_less(x, zero(), sub(zero(), large), large));
}

}  // namespace
}  // namespace colibri::compute
