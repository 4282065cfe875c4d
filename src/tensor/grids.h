// The tables behind the IQ1, IQ2 and IQ3 block types, from the bit sets of grid_bits.h: eight codes (IQ3: four) for
// each number of a lattice point, one a byte, the first in the lowest byte. Constants, made by the compiler.
//
// Private to src/tensor.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/grid_bits.h"

namespace colibri {

/// The vectors whose bits are set, in ascending order. `values`: what the digits stand for.
template <typename Word, size_t kPoints, size_t kBase, size_t kWords>
constexpr std::array<Word, kPoints> grid(const uint64_t (&bits)[kWords], const uint8_t (&values)[kBase]) {
  std::array<Word, kPoints> points{};
  size_t n = 0;
  for (size_t word = 0; word < kWords; ++word) {
    for (uint64_t left = bits[word]; left != 0; left &= left - 1) {
      size_t digits = 64 * word + static_cast<size_t>(std::countr_zero(left));
      Word point = 0;
      for (size_t i = 0; i < sizeof(Word); ++i, digits /= kBase)
        point |= static_cast<Word>(values[digits % kBase]) << 8 * i;
      points[n++] = point;
    }
  }
  return points;
}

inline constexpr uint8_t kGrid1Values[3] = {64 - 8, 64, 64 + 8};  // eight times -1, 0, 1, plus 64
inline constexpr uint8_t kGrid2Values[3] = {8, 25, 43};
inline constexpr uint8_t kGrid3XxsValues[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr uint8_t kGrid3SValues[8] = {1, 3, 5, 7, 9, 11, 13, 15};

inline constexpr auto kIq1Grid = grid<uint64_t, 2048>(kIQ1SBits, kGrid1Values);
inline constexpr auto kIq2XxsGrid = grid<uint64_t, 256>(kIQ2XXSBits, kGrid2Values);
inline constexpr auto kIq2XsGrid = grid<uint64_t, 512>(kIQ2XSBits, kGrid2Values);
inline constexpr auto kIq2SGrid = grid<uint64_t, 1024>(kIQ2SBits, kGrid2Values);
inline constexpr auto kIq3XxsGrid = grid<uint32_t, 256>(kIQ3XXSBits, kGrid3XxsValues);
inline constexpr auto kIq3SGrid = grid<uint32_t, 512>(kIQ3SBits, kGrid3SValues);

/// A byte of signs as a mask: 0xff where its bit is set.
constexpr std::array<uint64_t, 256> make_sign_masks() {
  std::array<uint64_t, 256> masks{};
  for (size_t signs = 0; signs < 256; ++signs)
    for (size_t i = 0; i < 8; ++i)
      if (signs >> i & 1) masks[signs] |= uint64_t{0xff} << 8 * i;
  return masks;
}
inline constexpr auto kSignMasks = make_sign_masks();

/// The same for seven signs, of which the eighth follows: their number is even.
constexpr std::array<uint64_t, 128> make_even_sign_masks() {
  std::array<uint64_t, 128> masks{};
  for (size_t signs = 0; signs < 128; ++signs)
    masks[signs] = kSignMasks[signs | static_cast<size_t>(std::popcount(signs) & 1) << 7];
  return masks;
}
inline constexpr auto kEvenSignMasks = make_even_sign_masks();

}  // namespace colibri
