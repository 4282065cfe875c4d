// Operations on single rows: norms, activations, gates, RoPE. Over the F32x16 included before.
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
    const F32x16 scaled = mul(load_run(x + i, lanes), inverse);
    store_run(y + i, lanes, weight != nullptr ? mul(scaled, load_run(weight + i, lanes)) : scaled);
  });
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n, float* y) {
  const auto count = static_cast<float>(n);
  F32x16 sum = zero(), squares = zero();
  for_each_run(n, [&](int64_t i, int64_t lanes) { sum = add(sum, load_run(x + i, lanes)); });
  const F32x16 mean = broadcast(sum_of_lanes(sum) / count);
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    F32x16 distance = sub(load_run(x + i, lanes), mean);
    if (lanes < 16) distance = select_less(lane_numbers(), broadcast(static_cast<float>(lanes)), distance, zero());
    squares = fma(distance, distance, squares);
  });
  const float variance = sum_of_lanes(squares) / count;
  const F32x16 inverse = div(broadcast(1.0f), square_root(broadcast(variance + eps)));
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    const F32x16 scaled = mul(sub(load_run(x + i, lanes), mean), inverse);
    store_run(y + i, lanes, add(mul(scaled, load_run(weight + i, lanes)), load_run(bias + i, lanes)));
  });
}

/// x = f(x), element by element.
template <typename Function>
COLIBRI_INLINE void map(float* x, int64_t n, Function f) {
  for_each_run(n, [&](int64_t i, int64_t lanes) { store_run(x + i, lanes, f(load_run(x + i, lanes))); });
}
/// out = f(x, y), element by element.
template <typename Function>
COLIBRI_INLINE void map(const float* x, const float* y, int64_t n, float* out, Function f) {
  for_each_run(n, [&](int64_t i, int64_t lanes) {
    store_run(out + i, lanes, f(load_run(x + i, lanes), load_run(y + i, lanes)));
  });
}

void add_row(float* x, float factor, const float* y, int64_t n) {
  const F32x16 by = broadcast(factor);
  map(x, y, n, x, [by](F32x16 a, F32x16 b) { return add(a, mul(by, b)); });
}

void scale(float* x, float factor, int64_t n) {
  map(x, n, [by = broadcast(factor)](F32x16 a) { return mul(a, by); });
}

void multiply_row(float* x, const float* y, int64_t n) {
  map(x, y, n, x, [](F32x16 a, F32x16 b) { return mul(a, b); });
}

/// Lets NaN through.
COLIBRI_INLINE F32x16 clamped(F32x16 x, F32x16 low, F32x16 high) { return minimum(high, maximum(low, x)); }

void clamp(float* x, float limit, int64_t n) {
  map(x, n, [low = broadcast(-limit), high = broadcast(limit)](F32x16 a) { return clamped(a, low, high); });
}

void soft_cap(float* x, float cap, int64_t n) {
  map(x, n, [c = broadcast(cap)](F32x16 a) { return mul(c, hyperbolic_tangent(div(a, c))); });
}

/// x / 2 * (1 + tanh y) is x / (1 + e^-2y), which loses nothing where tanh y is near -1.
COLIBRI_INLINE F32x16 gelu(F32x16 x) {
  const F32x16 curve = fma(mul(x, x), broadcast(0.044715f), broadcast(1.0f));
  return div(x, one_plus_exp_minus(mul(mul(x, broadcast(1.595769122f)), curve)));  // 2 sqrt(2 / pi)
}

void activate(const Activation& activation, const float* gate, const float* up, int64_t n, float* out) {
  const F32x16 high = broadcast(activation.limit), low = broadcast(-activation.limit);
  const F32x16 alpha = broadcast(activation.alpha), one = broadcast(1.0f);
  switch (activation.kind) {
    case ActivationKind::kSilu:
      return map(gate, up, n, out, [](F32x16 g, F32x16 u) { return mul(silu(g), u); });
    case ActivationKind::kGeluTanh:
      return map(gate, up, n, out, [](F32x16 g, F32x16 u) { return mul(gelu(g), u); });
    case ActivationKind::kRelu2:
      return map(gate, gate, n, out, [](F32x16 g, F32x16) {
        const F32x16 positive = maximum(zero(), g);  // this order lets NaN through
        return mul(positive, positive);
      });
    case ActivationKind::kSiluClamped:
      return map(gate, up, n, out,
                 [=](F32x16 g, F32x16 u) { return mul(silu(minimum(high, g)), clamped(u, low, high)); });
    case ActivationKind::kSwigluClamped:
      return map(gate, up, n, out, [=](F32x16 g, F32x16 u) {
        g = minimum(high, g);
        return mul(mul(g, sigmoid(mul(alpha, g))), add(clamped(u, low, high), one));
      });
  }
}

void scale_by_sigmoid(float* x, const float* gate, int64_t gates, int64_t each) {
  if (each == 1) return map(x, gate, gates, x, [](F32x16 a, F32x16 g) { return mul(a, sigmoid(g)); });
  for (int64_t i = 0; i < gates; ++i)
    map(x + i * each, each, [by = sigmoid(broadcast(gate[i]))](F32x16 a) { return mul(a, by); });
}

/// (a, b) turned by an angle: (a cos - b sin, b cos + a sin). Turning back is turning (b, a).
COLIBRI_INLINE void turn(F32x16 cosine, F32x16 sine, F32x16* a, F32x16* b) {
  const F32x16 turned = sub(mul(*a, cosine), mul(*b, sine));
  *b = add(mul(*b, cosine), mul(*a, sine));
  *a = turned;
}

void turn_halves(float* first, float* second, const RopeJob& job) {
  for_each_run(job.half, [&](int64_t i, int64_t lanes) {
    F32x16 a = load_run(first + i, lanes), b = load_run(second + i, lanes);
    turn(load_run(job.cos + i, lanes), load_run(job.sin + i, lanes), &a, &b);
    store_run(first + i, lanes, a);
    store_run(second + i, lanes, b);
  });
}

void turn_neighbours(float* first, float* second, const RopeJob& job) {
  for_each_run(job.half, [&](int64_t i, int64_t lanes) {
    float firsts[16] = {}, seconds[16] = {};
    for (int64_t j = 0; j < lanes; ++j) {
      firsts[j] = first[2 * (i + j)];
      seconds[j] = second[2 * (i + j)];
    }
    F32x16 a = load(firsts), b = load(seconds);
    turn(load_run(job.cos + i, lanes), load_run(job.sin + i, lanes), &a, &b);
    store(firsts, a);
    store(seconds, b);
    for (int64_t j = 0; j < lanes; ++j) {
      first[2 * (i + j)] = firsts[j];
      second[2 * (i + j)] = seconds[j];
    }
  });
}

void rope(const RopeJob* job) {
  for (int64_t h = 0; h < job->heads; ++h) {
    float* first = job->row + h * job->head_dim;
    float* second = first + (job->interleaved ? 1 : job->half);
    float *a = job->inverse ? second : first, *b = job->inverse ? first : second;
    if (job->interleaved) {
      turn_neighbours(a, b, *job);
    } else {
      turn_halves(a, b, *job);
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
