// KvView: the keys and values of one sequence in one layer, as the attention kernels read them.
//
// Both are float panels like packed weights (tensor/packed.h), per KV head:
//   keys    [kv_heads][capacity / 16][head_dim][16]        16 positions side by side: scores are one chain over
//   head_dim values  [kv_heads][ceil(head_dim / 16)][capacity][16]  16 channels side by side: outputs are one chain
//   over positions
// `capacity` is a multiple of 16. Positions not yet written hold no promise: kernels may load
// a key that stands beside written ones, but no result may depend on it.
#pragma once

#include <cstdint>

namespace colibri {

struct KvView {
  float* keys = nullptr;
  float* values = nullptr;
  int64_t capacity = 0;  ///< positions
  int kv_heads = 0;
  int head_dim = 0;

  int64_t key_head_floats() const { return capacity * head_dim; }
  int64_t value_head_floats() const { return capacity * ((head_dim + 15) / 16 * 16); }
};

}  // namespace colibri
