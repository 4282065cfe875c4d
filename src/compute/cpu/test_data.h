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

}  // namespace colibri::compute
