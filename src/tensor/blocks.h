// The file types whose blocks are kept as they are and expanded a strip at a time: IQ1, IQ2, IQ3, TQ, NVFP4 and Q1_0.
// Every one of them is, per run of 16 inputs, a float times a small whole number.
//
// Private to src/tensor: convert.cc and unpack.cc call this. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/expanded_strip.h"

namespace colibri {

struct BlockCodec {
  DType dtype;
  int64_t inputs, bytes;  ///< of a block
  void (*convert)(const std::byte* src, int64_t n, float* dst);
  ExpandStrip expand;  ///< of 16 outputs' blocks, one output after the other
};

/// Null for all other types.
const BlockCodec* block_codec(DType dtype);

}  // namespace colibri
