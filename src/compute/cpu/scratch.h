// The scratch memory of a CPU backend: one definition of its parts, from which both its size and its pointers follow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compute/backend.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/tiling.h"

namespace colibri::compute {

struct Scratch {
  float* activations = nullptr;    ///< packed inputs of a matmul, or of all experts; experts' outputs; probabilities
  float* expert_hidden = nullptr;  ///< packed [assignments, max_expert_width]
  float* expert_tiles = nullptr;   ///< per thread: gate and up of one tile of one task
  float* attention = nullptr;      ///< per thread
  float* sum_weights = nullptr;    ///< [assignments]
  int32_t* slots = nullptr;        ///< [assignments]: where the choices of each row stand in the grouped order
  int32_t* grouped = nullptr;      ///< [assignments]: rows, ordered by expert
  int32_t* group_end = nullptr;    ///< [n_experts]: end of each expert's part of `grouped`
  int32_t* active = nullptr;       ///< [n_experts]: experts that have rows

  static constexpr int64_t kExpertTileFloats = 2 * kMaxTileRows * kMaxPanelsPerTask * kPanelWidth;

  static int64_t assignments(const BackendLimits& l) { return l.n_experts > 0 ? l.max_rows * l.top_k : 0; }
  static int64_t expert_inputs(const BackendLimits& l) {
    return l.max_expert_inputs > 0 ? l.max_expert_inputs : l.max_inputs;
  }
  static int64_t activation_floats(const BackendLimits& l) {
    return std::max({l.max_rows * l.max_inputs, assignments(l) * expert_inputs(l), l.max_rows * l.n_experts});
  }
  static int64_t attention_floats(const BackendLimits& l) {
    const int64_t width = ceil_div(l.head_dim, kPanelWidth) * kPanelWidth;
    return l.head_dim > 0 ? kAttentionRows * (2 * width + kKeyTileWidth + kLanes) : 0;  // as AttentionJob::scratch says
  }

  /// Calls take(elements) for each part, in order; it returns where the part lies (or null when only counting).
  template <typename Take>
  static Scratch lay_out(const BackendLimits& l, int threads, Take take) {
    const int64_t n = assignments(l);
    Scratch s;
    s.activations = static_cast<float*>(take(activation_floats(l)));
    s.expert_hidden = static_cast<float*>(take(n * l.max_expert_width));
    s.expert_tiles = static_cast<float*>(take(n > 0 ? threads * kExpertTileFloats : 0));
    s.attention = static_cast<float*>(take(threads * attention_floats(l)));
    s.sum_weights = static_cast<float*>(take(n));
    s.slots = static_cast<int32_t*>(take(n));
    s.grouped = static_cast<int32_t*>(take(n));
    s.group_end = static_cast<int32_t*>(take(l.n_experts));
    s.active = static_cast<int32_t*>(take(l.n_experts));
    return s;
  }
};

}  // namespace colibri::compute
