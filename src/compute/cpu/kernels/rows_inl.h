// Operations on single rows: norms, activations, RoPE. Over the F32x16 included before.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"

namespace colibri::compute {
namespace {

void rms_norm(const float* x, const float* weight, float eps, int64_t n, float* y) {
  F32x16 squares = zero();
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    const F32x16 v = load_run(x + i, lanes);
    squares = fma(v, v, squares);
  });
  const float mean = sum_of_lanes(squares) / static_cast<float>(n);
  const F32x16 inverse = div(broadcast(1.0f), square_root(broadcast(mean + eps)));
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(y + i, lanes, mul(mul(load_run(x + i, lanes), inverse), load_run(weight + i, lanes)));
  });
}

void add_row(float* x, const float* y, int64_t n) {
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(x + i, lanes, add(load_run(x + i, lanes), load_run(y + i, lanes)));
  });
}

void clamp(float* x, float limit, int64_t n) {
  const F32x16 low = broadcast(-limit), high = broadcast(limit);
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(x + i, lanes, minimum(high, maximum(low, load_run(x + i, lanes))));  // this order lets NaN through
  });
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(out + i, lanes, mul(silu(load_run(gate + i, lanes)), load_run(up + i, lanes)));
  });
}

void scale_by_sigmoid(float* x, float gate, int64_t n) {
  const F32x16 factor = div(broadcast(1.0f), one_plus_exp_minus(broadcast(gate)));
  for_each_run(n, [&](int64_t i, int64_t lanes) { store_run(x + i, lanes, mul(load_run(x + i, lanes), factor)); });
}

/// (a, b) turned by an angle: (a cos - b sin, b cos + a sin).
COLIBRI_INLINE void turn(F32x16 cosine, F32x16 sine, F32x16* a, F32x16* b) {
  const F32x16 turned = sub(mul(*a, cosine), mul(*b, sine));
  *b = add(mul(*b, cosine), mul(*a, sine));
  *a = turned;
}

void turn_halves(float* head, const RopeJob& job) {
  for_each_run(job.half, [&](int64_t i, int64_t lanes) {
    F32x16 a = load_run(head + i, lanes), b = load_run(head + job.half + i, lanes);
    turn(load_run(job.cos + i, lanes), load_run(job.sin + i, lanes), &a, &b);
    store_run(head + i, lanes, a);
    store_run(head + job.half + i, lanes, b);
  });
}

void turn_neighbours(float* head, const RopeJob& job) {
  for_each_run(job.half, [&](int64_t i, int64_t lanes) {
    float even[16] = {}, odd[16] = {};
    for (int64_t j = 0; j < lanes; ++j) {
      even[j] = head[2 * (i + j)];
      odd[j] = head[2 * (i + j) + 1];
    }
    F32x16 a = load(even), b = load(odd);
    turn(load_run(job.cos + i, lanes), load_run(job.sin + i, lanes), &a, &b);
    store(even, a);
    store(odd, b);
    for (int64_t j = 0; j < lanes; ++j) {
      head[2 * (i + j)] = even[j];
      head[2 * (i + j) + 1] = odd[j];
    }
  });
}

void rope(const RopeJob* job) {
  for (int64_t h = 0; h < job->heads; ++h) {
    float* head = job->row + h * job->head_dim;
    if (job->interleaved) {
      turn_neighbours(head, *job);
    } else {
      turn_halves(head, *job);
    }
  }
}

void add_scaled(float* sum, float factor, const float* x, int64_t n) {
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(sum + i, lanes, fma(broadcast(factor), load_run(x + i, lanes), load_run(sum + i, lanes)));
  });
}

}  // namespace
}  // namespace colibri::compute
