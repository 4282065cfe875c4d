// A routing trace (docs/traces.md) as steps that want experts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace colibri::replay {

struct Want {
  int32_t expert = 0;
  int32_t rows = 0;  ///< how many rows of the step chose it
};

struct Step {
  int64_t tokens = 0;
  std::vector<std::vector<Want>> layers;  // [MoE layers], each expert once, in the order of their first use
};

struct Trace {
  int n_layers = 0;  // MoE layers
  int n_experts = 0;
  int top_k = 0;
  std::vector<Step> steps;

  int64_t all_experts() const { return int64_t{n_layers} * n_experts; }
};

/// Reads one file. `step_positions` > 0: steps of many positions are cut into steps of so many. kInvalidModel names the
/// file and the line.
Result<Trace> read_trace(const std::string& path, int64_t step_positions);

/// `next` after `trace`, as if one engine had run both. kUsage when they come from different models.
Status append(Trace& trace, Trace next);

}  // namespace colibri::replay
