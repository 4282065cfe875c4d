// What the tests of this folder share.
#pragma once

#include "compute/cpu/random_data.h"

namespace colibri::compute {

/// Large enough for every problem of these tests.
inline BackendLimits test_limits() {
  BackendLimits l;
  l.max_rows = 160;
  l.max_inputs = 768;
  l.max_expert_width = 384;
  l.max_expert_inputs = 384;
  l.max_group_inputs = 512;
  l.n_experts = 16;
  l.top_k = 6;
  l.key_dim = 576;
  l.value_dim = 512;
  l.index_heads = 9;
  l.index_key_dim = 80;
  l.index_positions = 700;
  l.n_heads = 16;
  l.n_kv_heads = 4;
  l.max_segments = 4;
  l.max_apart_rows = 24;
  return l;
}

inline std::unique_ptr<Backend> test_backend(const std::string& isa, int threads = 1, bool float_activations = false) {
  BackendOptions options;
  options.float_activations = float_activations;
  options.isa = isa;
  options.threads = threads;
  options.limits = test_limits();
  return create_cpu_backend(options).value();
}

/// One of each kind.
constexpr Activation kActivations[] = {{ActivationKind::kSilu},
                                       {ActivationKind::kGeluTanh},
                                       {ActivationKind::kRelu2},
                                       {ActivationKind::kSiluClamped, 2.5f},
                                       {ActivationKind::kSwigluClamped, 3.0f, 1.702f}};

/// Some experts with encodings drawn for each matrix.
struct RandomExperts {
  std::vector<Weights> matrices;  ///< gate, up and down of each expert; of size 0 where there is no gate
  std::vector<Block> biases;      ///< likewise, if there are biases
  std::vector<ExpertWeights> weights;
  std::vector<const ExpertWeights*> pointers;

  RandomExperts(Random& random, int64_t n, int64_t hidden, int64_t width, bool gated = true, bool biased = false) {
    for (int64_t e = 0; e < n; ++e) {
      ExpertWeights w;
      w.gate = gated ? draw(random, width, hidden) : no_matrix();
      w.up = draw(random, width, hidden);
      w.down = draw(random, hidden, width);
      if (biased) {
        w.gate_bias = gated ? draw_bias(random, width) : no_bias();
        w.up_bias = draw_bias(random, width);
        w.down_bias = draw_bias(random, hidden);
      }
      weights.push_back(w);
    }
    for (const ExpertWeights& w : weights) pointers.push_back(&w);
  }

 private:
  PackedMatrix draw(Random& random, int64_t outputs, int64_t inputs) {
    Encoding encoding = kEncodings[static_cast<size_t>(random.below(kEncodingCount))];
    if (inputs % block_inputs(encoding) != 0) encoding = Encoding::kQ4_0;
    matrices.push_back(random_weights(random, encoding, outputs, inputs));
    return matrices.back().packed;
  }
  PackedMatrix no_matrix() {
    matrices.emplace_back();
    return {};
  }
  const float* draw_bias(Random& random, int64_t n) {
    biases.push_back(random_block(random, 1, n));
    return biases.back().values.data();
  }
  const float* no_bias() {
    biases.emplace_back();
    return nullptr;
  }
};

}  // namespace colibri::compute
