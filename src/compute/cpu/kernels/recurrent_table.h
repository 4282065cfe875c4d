// RecurrentTable: what one instruction set level offers for the recurrent mixers (compute/recurrent.h), as plain
// functions. Apart from KernelTable, so that these small kernels (recurrent_inl.h) have translation units of their own.
//
// The same rules: equal bits on every level, plain structs and C headers only. Jobs describe one sequence and one head,
// group or range of channels; strides count floats from one row to the next. Outputs may be inputs of the same shape.
// Thread-safety: pure functions of their arguments.
#pragma once

#include <stdint.h>

namespace colibri::compute {

struct ConvJob {
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t channels = 0;           ///< of this job; weight, bias and state begin at the first of them
  int64_t all_channels = 0;       ///< floats from one tap to the next in weight and state
  int64_t kernel = 0;             ///< 2 .. 8
  const float* weight = nullptr;  ///< [kernel, all_channels]
  const float* bias = nullptr;    ///< or null
  float* state = nullptr;         ///< [kernel - 1, all_channels]: earlier inputs, oldest first
  bool silu = false;
};

/// out = e^(a * softplus(x + bias)), or e^(lower_bound * sigmoid(-a * (x + bias))) when the bound is negative.
struct DecayJob {
  const float* x = nullptr;
  const float* a = nullptr;
  bool one_a = false;           ///< a[0] for all n, else a[i]
  const float* bias = nullptr;  ///< [n]
  float lower_bound = 0;
  int64_t n = 0;
  float* out = nullptr;
};

/// One value head. A state's layout: for each block of up to kStateBlock value channels, [key_dim, channels].
struct DeltaRuleJob {
  const float *q = nullptr, *k = nullptr;
  int64_t q_stride = 0, k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  const float* decay = nullptr;
  int64_t decay_stride = 0;
  bool channel_decay = false;  ///< a factor for each key channel, else one
  const float* beta = nullptr;
  int64_t beta_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t key_dim = 0, value_dim = 0;
  float* state = nullptr;
};

/// One head. A state's layout: for each block of up to kStateBlock channels of the head, [state_size, channels].
struct Mamba2Job {
  const float *x = nullptr, *b = nullptr, *c = nullptr, *dt = nullptr;
  int64_t x_stride = 0, b_stride = 0, c_stride = 0, dt_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t head_dim = 0, state_size = 0;
  float a = 0, dt_bias = 0, d = 0, dt_min = 0, dt_max = 0;
  float* state = nullptr;
};

constexpr int kStateBlock = 64;  ///< channels that pass over a block of state together

/// One group of a row; weight begins at its first column.
struct GatedNormJob {
  const float* x = nullptr;
  const float* gate = nullptr;
  const float* weight = nullptr;
  float eps = 0;
  int64_t n = 0;
  float* out = nullptr;
};

/// Pooling of the rows of one sequence (Backend::compress), for some channels: pointers begin at the first of them.
struct CompressJob {
  const float *kv = nullptr, *gate = nullptr;
  int64_t kv_stride = 0, gate_stride = 0;
  const float* bias = nullptr;  ///< [rate, row width]
  float* state = nullptr;       ///< [lines, 2, row width]
  float* out = nullptr;         ///< of the first entry that these rows complete
  int64_t out_stride = 0;
  int64_t rows = 0, first_position = 0;
  int64_t channels = 0;      ///< of this job
  int64_t all_channels = 0;  ///< of an entry
  int64_t halves = 1;        ///< 2 with overlap
  int64_t rate = 0;

  int64_t row_width() const { return halves * all_channels; }
  int64_t lines() const { return halves * rate; }
};

struct RecurrentTable {
  void (*mul)(const float* a, const float* b, int64_t n, float* out);
  void (*sigmoid)(const float* x, int64_t n, float* out);
  void (*l2_norm)(const float* x, float scale, int64_t n, float* y);
  void (*conv)(const ConvJob* job);
  void (*decay)(const DecayJob* job);
  void (*delta_rule)(const DeltaRuleJob* job);
  void (*mamba2)(const Mamba2Job* job);
  void (*gated_norm[3])(const GatedNormJob* job);  ///< by GatedNorm
  void (*compress)(const CompressJob* job);
};

extern const RecurrentTable kScalarRecurrentKernels;
extern const RecurrentTable kSse4RecurrentKernels;
extern const RecurrentTable kAvx2RecurrentKernels;
extern const RecurrentTable kAvx512RecurrentKernels;

}  // namespace colibri::compute
