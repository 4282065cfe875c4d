// Kernels of the recurrent mixers, over the F32x16 included before, and the RecurrentTable of that translation unit.
//
// Lanes are channels, and time is a loop: each channel's numbers are computed by the same chain whatever stands beside
// them. A block of state stays in the first-level cache while the rows pass over it.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/compress_inl.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/recurrent_table.h"

namespace colibri::compute {
namespace {

COLIBRI_INLINE F32x16 inverse_root(float x) { return div(broadcast(1.0f), square_root(broadcast(x))); }

void mul_row(const float* a, const float* b, int64_t n, float* out) {
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(out + i, lanes, mul(load_run(a + i, lanes), load_run(b + i, lanes)));
  });
}

void sigmoid_row(const float* x, int64_t n, float* out) {
  for_each_run(n, [&](int64_t i, int64_t lanes) { store_run(out + i, lanes, sigmoid(load_run(x + i, lanes))); });
}

COLIBRI_INLINE float sum_of_squares(const float* x, int64_t n) {
  F32x16 squares = zero();
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    const F32x16 v = load_run(x + i, lanes);
    squares = fma(v, v, squares);
  });
  return sum_of_lanes(squares);
}

void l2_norm(const float* x, float scale, int64_t n, float* y) {
  const F32x16 inverse = inverse_root(sum_of_squares(x, n) + 1e-6f), factor = broadcast(scale);
  for_each_run(
      n, [&](int64_t i, int64_t lanes) { store_run(y + i, lanes, mul(mul(load_run(x + i, lanes), inverse), factor)); });
}

/// All rows of up to 16 channels. The inputs that still matter stay in registers.
template <int kKernel>
COLIBRI_INLINE void conv_run(const ConvJob& job, int64_t channel, int64_t lanes) {
  F32x16 weight[kKernel], past[kKernel - 1];
  for (int j = 0; j < kKernel; ++j) weight[j] = load_run(job.weight + j * job.all_channels + channel, lanes);
  for (int j = 0; j < kKernel - 1; ++j) past[j] = load_run(job.state + j * job.all_channels + channel, lanes);
  const F32x16 bias = job.bias != nullptr ? load_run(job.bias + channel, lanes) : zero();
  for (int64_t r = 0; r < job.rows; ++r) {
    const F32x16 x = load_run(job.x + r * job.x_stride + channel, lanes);
    F32x16 y = bias;
    COLIBRI_UNROLL
    for (int j = 0; j < kKernel - 1; ++j) y = fma(weight[j], past[j], y);
    y = fma(weight[kKernel - 1], x, y);
    COLIBRI_UNROLL
    for (int j = 0; j < kKernel - 2; ++j) past[j] = past[j + 1];
    past[kKernel - 2] = x;
    store_run(job.y + r * job.y_stride + channel, lanes, job.silu ? silu(y) : y);
  }
  for (int j = 0; j < kKernel - 1; ++j) store_run(job.state + j * job.all_channels + channel, lanes, past[j]);
}

template <int kKernel>
void conv_taps(const ConvJob& job) {
  for_each_run(job.channels, [&](int64_t channel, int64_t lanes) { conv_run<kKernel>(job, channel, lanes); });
}

void conv(const ConvJob* job) {
  void (*const by_kernel[])(const ConvJob&) = {conv_taps<2>, conv_taps<3>, conv_taps<4>, conv_taps<5>,
                                               conv_taps<6>, conv_taps<7>, conv_taps<8>};
  by_kernel[job->kernel - 2](*job);
}

void decay(const DecayJob* job) {
  for_each_run(job->n, [&](int64_t i, int64_t lanes) {
    const F32x16 a = job->one_a ? broadcast(job->a[0]) : load_run(job->a + i, lanes);
    const F32x16 x = add(load_run(job->x + i, lanes), load_run(job->bias + i, lanes));
    const F32x16 g =
        job->lower_bound < 0 ? mul(broadcast(job->lower_bound), sigmoid(mul(sub(zero(), a), x))) : mul(a, softplus(x));
    store_run(job->out + i, lanes, exponential(g));
  });
}

constexpr int kBlockVectors = kStateBlock / 16;

/// Channels first to first + 16 * kVectors of a value head; with one vector, only `lanes` of its lanes.
template <int kVectors>
COLIBRI_INLINE void delta_rule_block(const DeltaRuleJob& job, int64_t first, int64_t lanes) {
  const int64_t width = kVectors == 1 ? lanes : kVectors * 16, decay_step = job.channel_decay ? 1 : 0;
  float* const state = job.state + first * job.key_dim;
  for (int64_t r = 0; r < job.rows; ++r) {
    const float *q = job.q + r * job.q_stride, *k = job.k + r * job.k_stride;
    const float* decay = job.decay + r * job.decay_stride;
    F32x16 delta[kVectors], out[kVectors];  // delta: S^T k at first
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) delta[v] = out[v] = zero();
    for (int64_t i = 0; i < job.key_dim; ++i) {
      const F32x16 factor = broadcast(decay[i * decay_step]), key = broadcast(k[i]);
      const float* line = state + i * width;
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) delta[v] = fma(key, mul(load_run(line + 16 * v, lanes), factor), delta[v]);
    }
    const F32x16 beta = broadcast(job.beta[r * job.beta_stride]);
    const float* value = job.v + r * job.v_stride + first;
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) delta[v] = mul(beta, sub(load_run(value + 16 * v, lanes), delta[v]));
    for (int64_t i = 0; i < job.key_dim; ++i) {
      const F32x16 factor = broadcast(decay[i * decay_step]), key = broadcast(k[i]), query = broadcast(q[i]);
      float* line = state + i * width;
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const F32x16 s = fma(key, delta[v], mul(load_run(line + 16 * v, lanes), factor));
        store_run(line + 16 * v, lanes, s);
        out[v] = fma(query, s, out[v]);
      }
    }
    float* y = job.out + r * job.out_stride + first;
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) store_run(y + 16 * v, lanes, out[v]);
  }
}

void delta_rule(const DeltaRuleJob* job) {
  int64_t c = 0;
  for (; c + kStateBlock <= job->value_dim; c += kStateBlock) delta_rule_block<kBlockVectors>(*job, c, 16);
  for_each_run(job->value_dim - c, [&](int64_t i, int64_t lanes) { delta_rule_block<1>(*job, c + i, lanes); });
}

/// Channels first to first + 16 * kVectors of a head; with one vector, only `lanes` of its lanes.
template <int kVectors>
COLIBRI_INLINE void mamba2_block(const Mamba2Job& job, int64_t first, int64_t lanes) {
  const int64_t width = kVectors == 1 ? lanes : kVectors * 16;
  float* const state = job.state + first * job.state_size;
  for (int64_t r = 0; r < job.rows; ++r) {
    const float *x = job.x + r * job.x_stride + first, *b = job.b + r * job.b_stride, *c = job.c + r * job.c_stride;
    F32x16 dt = softplus(broadcast(job.dt[r * job.dt_stride] + job.dt_bias));
    dt = minimum(broadcast(job.dt_max), maximum(broadcast(job.dt_min), dt));
    const F32x16 factor = exponential(mul(dt, broadcast(job.a)));
    F32x16 input[kVectors], out[kVectors];
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      input[v] = mul(dt, load_run(x + 16 * v, lanes));
      out[v] = zero();
    }
    for (int64_t i = 0; i < job.state_size; ++i) {
      const F32x16 in = broadcast(b[i]), read = broadcast(c[i]);
      float* line = state + i * width;
      COLIBRI_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const F32x16 s = fma(in, input[v], mul(load_run(line + 16 * v, lanes), factor));
        store_run(line + 16 * v, lanes, s);
        out[v] = fma(read, s, out[v]);
      }
    }
    float* y = job.out + r * job.out_stride + first;
    COLIBRI_UNROLL
    for (int v = 0; v < kVectors; ++v)
      store_run(y + 16 * v, lanes, fma(broadcast(job.d), load_run(x + 16 * v, lanes), out[v]));
  }
}

void mamba2(const Mamba2Job* job) {
  int64_t c = 0;
  for (; c + kStateBlock <= job->head_dim; c += kStateBlock) mamba2_block<kBlockVectors>(*job, c, 16);
  for_each_run(job->head_dim - c, [&](int64_t i, int64_t lanes) { mamba2_block<1>(*job, c + i, lanes); });
}

COLIBRI_INLINE F32x16 inverse_rms(const float* x, const GatedNormJob& job) {
  return inverse_root(sum_of_squares(x, job.n) / static_cast<float>(job.n) + job.eps);
}

template <typename Act>
COLIBRI_INLINE void norm_then(const GatedNormJob& job, Act act) {
  const F32x16 inverse = inverse_rms(job.x, job);
  for_each_run(job.n, [&](int64_t i, int64_t lanes) {
    const F32x16 y = mul(mul(load_run(job.x + i, lanes), inverse), load_run(job.weight + i, lanes));
    store_run(job.out + i, lanes, mul(y, act(load_run(job.gate + i, lanes))));
  });
}
void norm_then_silu(const GatedNormJob* job) {
  norm_then(*job, [](F32x16 x) { return silu(x); });
}
void norm_then_sigmoid(const GatedNormJob* job) {
  norm_then(*job, [](F32x16 x) { return sigmoid(x); });
}
void silu_then_norm(const GatedNormJob* job) {
  for_each_run(job->n, [&](int64_t i, int64_t lanes) {
    store_run(job->out + i, lanes, mul(load_run(job->x + i, lanes), silu(load_run(job->gate + i, lanes))));
  });
  const F32x16 inverse = inverse_rms(job->out, *job);
  for_each_run(job->n, [&](int64_t i, int64_t lanes) {
    const F32x16 y = mul(load_run(job->out + i, lanes), inverse);
    store_run(job->out + i, lanes, mul(y, load_run(job->weight + i, lanes)));
  });
}

constexpr RecurrentTable kRecurrentTable = {
    mul_row,  sigmoid_row, l2_norm, conv,
    decay,    delta_rule,  mamba2,  {norm_then_silu, norm_then_sigmoid, silu_then_norm},
    compress,
};

}  // namespace
}  // namespace colibri::compute
