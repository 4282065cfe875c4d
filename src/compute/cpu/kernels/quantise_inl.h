// Rows of floats -> strips of 8-bit activations. Over the vectors included before.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

constexpr int32_t kInfinityBits = 0x7f800000;

/// The bits of the largest |x|; as whole numbers they order like the magnitudes, with infinity and NaN on top.
COLIBRI_INLINE int32_t largest_magnitude_bits(const float* x, int64_t n) {
  I32x16 largest = zero_int();
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    largest = larger(largest, bit_and(bits_of(load_run(x + i, lanes)), broadcast_int(0x7fffffff)));
  });
  int32_t lane[16], result = 0;
  store_ints(lane, largest);
  for (int i = 0; i < 16; ++i) result = lane[i] > result ? lane[i] : result;
  return result;
}

/// The sums of a strip whose q are there: first of four bytes, then of four sums.
void sum_runs(ActivationStrip* strip) {
  int32_t fours[kStripWidth / 4];
  for (int i = 0; i < kStripWidth / 4; i += kLanes) store_ints(fours + i, sums_of_four(strip->q + 4 * i));
  for (int run = 0; run < kStripWidth / 16; ++run) {
    const int32_t* four = fours + 4 * run;
    strip->sums[run] = static_cast<int16_t>(four[0] + four[1] + four[2] + four[3]);
  }
  for (int g = 0; g < kStripWidth / 32; ++g)
    strip->pair_sums[g % 4 * 2 + g / 4] = static_cast<int16_t>(strip->sums[2 * g] + strip->sums[2 * g + 1]);
}

void quantise_strip(const float* x, int64_t n, ActivationStrip* strip) {
  const int32_t bits = largest_magnitude_bits(x, n);
  float largest;
  __builtin_memcpy(&largest, &bits, sizeof largest);
  const bool finite = bits < kInfinityBits, tiny = largest < 0x1p-100f;
  const float inverse = finite && !tiny ? 127.0f / largest : 0.0f;
  strip->scale = !finite ? __builtin_nanf("") : tiny ? 0.0f : largest / 127.0f;
  __builtin_memset(strip->q, 0, sizeof strip->q + sizeof strip->sums + sizeof strip->pair_sums);
  if (inverse == 0.0f) return;
  const F32x16 factor = broadcast(inverse);
  for_each_run(
      n, [&](int64_t i, int64_t lanes) { store_bytes(strip->q + i, to_int(mul(load_run(x + i, lanes), factor))); });
  sum_runs(strip);
}

void quantise(const float* x, int64_t k, ActivationStrip* strips) {
  for (int64_t first = 0; first < k; first += kStripWidth, ++strips)
    quantise_strip(x + first, k - first < kStripWidth ? k - first : kStripWidth, strips);
}

}  // namespace
}  // namespace colibri::compute
