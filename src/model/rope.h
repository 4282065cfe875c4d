// Rotary tables: the cos and sin that RoPE uses, for every position of the context, computed once at load.
#pragma once

#include <vector>

#include "model/spec.h"

namespace colibri::model {

/// Inverse frequencies [rotary_dim / 2] after scaling, as transformers computes them (float32). `long_prompt`: with the
/// long factors, where the spec has them.
std::vector<float> rope_inverse_frequencies(const RopeSpec& spec, bool long_prompt = false);

/// Floats that one of the two tables takes: the angles of all positions and, where the spec has them, those with the
/// long factors behind them.
int64_t rope_table_floats(const RopeSpec& spec, int64_t positions);

/// Fills cos and sin, each [positions (twice with long factors), rotary_dim / 2]; the attention factor is multiplied
/// in.
void fill_rope_tables(const RopeSpec& spec, int64_t positions, float* cos, float* sin);

}  // namespace colibri::model
