// Packed weights back to floats, a strip at a time: for kernels that multiply unquantised activations.
//
// Pure: no state, any number of threads. The values are those of unpack_row (tensor/packed.h), bit for bit.
#pragma once

#include <cstdint>

#include "tensor/expanded_strip.h"
#include "tensor/packed.h"

namespace colibri {

/// Expands strip `strip` of panel `panel` into out[inputs][16], where inputs = min(kStripInputs, k - strip *
/// kStripInputs). Plain encodings are seen as strips too. Outputs beyond n give zeros.
void unpack_strip(const PackedMatrix& matrix, int64_t panel, int64_t strip, float* out);

/// How strips of a block encoding become bytes and float scales. REQUIRES: is_blocks(encoding).
ExpandStrip strip_expander(Encoding encoding);

}  // namespace colibri
