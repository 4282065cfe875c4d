// The sixteen values of a four-bit float (e2m1), doubled: kMxfp4Values of tensor/packed.h as arithmetic on the bytes of
// a word, because table look-ups cannot be vectorised.
//
// Private to src/tensor.
#pragma once

#include <cstdint>

#include "tensor/packed.h"

namespace colibri {

constexpr int kFp4Zero = 12;

/// kMxfp4Values[u] + 12 for codes u, one a byte. The magnitude of u = m + 8 s is m, with 1 more for m = 5, 2 for m = 6
/// and 5 for m = 7.
template <typename Word>
constexpr Word fp4_values(Word codes) {
  constexpr Word kOnes = static_cast<Word>(~Word{0}) / 0xff;
  const Word bit0 = codes & kOnes, bit1 = codes >> 1 & kOnes, bit2 = codes >> 2 & kOnes, negative = codes >> 3 & kOnes;
  const Word magnitude = (codes & 7 * kOnes) + (bit2 & bit0) + 2 * (bit2 & bit1) + 2 * (bit2 & bit1 & bit0);
  const Word negate = negative * 0xff;
  return ((kFp4Zero * kOnes + magnitude) & ~negate) | ((kFp4Zero * kOnes - magnitude) & negate);
}

constexpr bool fp4_values_agree() {
  for (uint32_t u = 0; u < 16; ++u)
    if (fp4_values(u << 16) >> 16 != static_cast<uint32_t>(kMxfp4Values[u] + kFp4Zero) + kFp4Zero * 0x100u)
      return false;
  return true;
}
static_assert(fp4_values_agree());

}  // namespace colibri
