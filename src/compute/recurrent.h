// What the recurrent operations of backend.h take: short convolutions, the gated delta rule (DeltaNet, KDA), Mamba-2.
//
// They always run in recurrent form, row after row of a sequence, and all state is float32. So a row's result depends
// on the rows before it in its sequence alone: not on the other rows of a call, nor on where calls begin. State lies in
// the caller's memory (kv/state_cache.h), begins as zeros, and has a layout that only the kernels know. Orders of float
// operations (see backend.h for sums over a row):
//   - convolution: one chain of fused multiply-adds over the taps, oldest input first, starting from the bias or 0
//   - delta rule: the state times its decay is rounded; products of state with k and with q are chains of fused
//     multiply-adds over the key channels, ascending, starting from 0; a state takes k * delta in one more
//   - Mamba-2: likewise over the state's channels; the chain of an output ends with D * x
//   - pooling: over the rows in ascending position, one chain of additions of e^(gate - largest), one of fused
//     multiply-adds of that and the values, both starting from 0; then the quotient
// Thread-safety: plain values. Ownership: views and weights belong to the caller and must last as long as the call.
#pragma once

#include <cstdint>
#include <limits>

#include "tensor/tensor.h"

namespace colibri::compute {

/// Some columns of rows: element (r, c) is data[r * stride + c].
struct Columns {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t stride = 0;

  Columns() = default;
  Columns(Rows all) : data(all.data), rows(all.rows), width(all.width), stride(all.width) {}  // NOLINT: not explicit
  Columns(Rows from, int64_t first, int64_t count)
      : data(from.data + first), rows(from.rows), width(count), stride(from.width) {}
  float* row(int64_t r) const { return data + r * stride; }
};

/// A run of rows that belong to one sequence, in order, and that sequence's state for one operation of one layer.
struct RecurrentSegment {
  float* state = nullptr;
  int64_t first_row = 0;
  int64_t n_rows = 0;
};

constexpr int kMaxConvKernel = 8;

/// Causal depthwise convolution: y[t, c] = act(bias[c] + sum over j of weight[j, c] * x[t - (kernel - 1) + j, c]).
struct ConvParams {
  int kernel = 4;                 ///< 2 .. kMaxConvKernel
  const float* weight = nullptr;  ///< [kernel, channels], oldest input first: files have it as [channels, 1, kernel]
  const float* bias = nullptr;    ///< [channels], or null
  bool silu = false;              ///< the activation; else none
};
/// The last kernel - 1 inputs of each channel.
constexpr int64_t conv_state_floats(int kernel, int64_t channels) { return (kernel - 1) * channels; }

/// What the state of the delta rule is multiplied with: e^g in [0, 1], where
///   g = a * softplus(x + dt_bias), or with a lower bound, g = lower_bound * sigmoid(-a * (x + dt_bias)).
struct DecayParams {
  const float* a = nullptr;        ///< [heads]: -e^A_log
  const float* dt_bias = nullptr;  ///< [heads * channels]
  int64_t channels = 1;            ///< numbers per head: 1 for DeltaNet, key_dim for KDA
  float lower_bound = 0;           ///< negative: the second form (kda_safe_gate)
};

/// Shape of the gated delta rule.
struct DeltaRuleParams {
  int64_t n_key_heads = 0;
  int64_t n_value_heads = 0;  ///< a multiple of n_key_heads
  int64_t key_dim = 0;
  int64_t value_dim = 0;
  bool tiled = false;  ///< value head j uses key head j % n_key_heads; else j / (n_value_heads / n_key_heads)
  bool channel_decay = false;

  int64_t state_floats() const { return n_value_heads * key_dim * value_dim; }
};
struct DeltaRuleInputs {
  Columns q;      ///< [rows, n_key_heads * key_dim], after l2_norm with its scale
  Columns k;      ///< likewise, scale 1
  Columns v;      ///< [rows, n_value_heads * value_dim]
  Columns decay;  ///< factors, after Backend::decay: [rows, n_value_heads], or [rows, n_value_heads * key_dim]
  Columns beta;   ///< [rows, n_value_heads], after sigmoid
};

/// Shape and weights of a Mamba-2 scan.
struct Mamba2Params {
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t n_groups = 1;  ///< of heads that share B and C; divides n_heads
  int64_t state_size = 0;
  const float* a = nullptr;        ///< [n_heads]: -e^A_log
  const float* dt_bias = nullptr;  ///< [n_heads]
  const float* d = nullptr;        ///< [n_heads]
  float dt_min = 0;                ///< time_step_limit; may be infinite
  float dt_max = std::numeric_limits<float>::infinity();

  int64_t state_floats() const { return n_heads * head_dim * state_size; }
};
struct Mamba2Inputs {
  Columns x;   ///< [rows, n_heads * head_dim]
  Columns b;   ///< [rows, n_groups * state_size]
  Columns c;   ///< likewise
  Columns dt;  ///< [rows, n_heads], as projected
};

/// Pooling of the rows of runs of positions (DeepSeek-V4). Entry e is, by channel, the sum of value * weight over the
/// rows of positions [e * rate, (e + 1) * rate), where the weights are the softmax of gate + bias over them. With
/// overlap rows have two halves of channels: the second counts for the row's own entry, the first for the one after it.
struct CompressParams {
  int64_t rate = 0;
  bool overlap = false;
  int64_t channels = 0;         ///< of an entry
  const float* bias = nullptr;  ///< [rate, row_width()], by place in the run

  int64_t row_width() const { return (overlap ? 2 : 1) * channels; }
  int64_t state_floats() const { return (overlap ? 2 : 1) * rate * 2 * row_width(); }
};
/// A run of rows of one sequence at consecutive positions, and its state. The first entry that they complete goes to
/// row first_entry of the outputs, the others behind it.
struct CompressSegment {
  float* state = nullptr;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t first_position = 0;
  int64_t first_entry = 0;

  int64_t n_entries(int64_t rate) const { return (first_position + n_rows) / rate - first_position / rate; }
};

/// How a gated norm combines its parts; RMS is over each group of columns.
enum class GatedNorm {
  kNormThenSilu,     ///< RMS(x) * weight * silu(gate), weight [group]: DeltaNet
  kNormThenSigmoid,  ///< RMS(x) * weight * sigmoid(gate), weight [group]: KDA
  kSiluThenNorm,     ///< RMS(x * silu(gate)) * weight, weight [columns]: Mamba-2
};
struct GatedNormParams {
  GatedNorm form = GatedNorm::kNormThenSilu;
  int64_t group = 0;  ///< columns of a head or group; divides all
  const float* weight = nullptr;
  float eps = 1e-6f;
};

}  // namespace colibri::compute
