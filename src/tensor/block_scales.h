// Where the scales of a block stand, for those who make blocks up: tests and self-checks, which fill them with random
// bytes but want numbers of a sensible size.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/dtype.h"

namespace colibri {

/// Offsets of the half scales of a block. IQ1_M has the four nibbles of its one on top of words 48 to 54.
inline std::vector<int64_t> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kIQ1_S:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kQ1_0:
      return {0};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ3_K:
      return {108};
    case DType::kTQ1_0:
      return {52};
    case DType::kTQ2_0:
      return {64};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

}  // namespace colibri
