// StreamParams: the weights by which a block reads several residual streams and adds to them (hyper-connections).
//
// Read by the kernels of every instruction set, so: plain structs, nothing that a linker could merge.
#pragma once

#include <stdint.h>

namespace colibri::compute {

constexpr int kMaxStreams = 8;

struct StreamParams {
  int n = 0;           ///< streams, at most kMaxStreams
  int iterations = 1;  ///< of the normalisation of `mixed`
  float eps = 0.0f;
  const float* scale = nullptr;  ///< [3], or [1] where nothing is added
  const float* base = nullptr;   ///< as wide as the logits
};

}  // namespace colibri::compute
