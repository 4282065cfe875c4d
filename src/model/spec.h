// ModelSpec: what a model computes, as data. A family's reader fills it in from the config; the decoder loop reads it.
//
// Nothing in it says where the model came from: the same spec comes from safetensors and from GGUF.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compute/backend.h"

namespace colibri::model {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };

/// Rotary position embedding in halves: element i turns with element i + rotary_dim / 2.
struct RopeSpec {
  int rotary_dim = 0;
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double original_context = 0;            ///< llama3, yarn
  double low_freq_factor = 1.0;           ///< llama3
  double high_freq_factor = 4.0;          ///< llama3
  double beta_fast = 32.0;                ///< yarn
  double beta_slow = 1.0;                 ///< yarn
  bool truncate = true;                   ///< yarn: round the correction range
  double attention_factor = 1.0;          ///< on cos and sin
  std::vector<float> frequency_divisors;  ///< GGUF's rope_freqs.weight [rotary_dim / 2]; empty: none
};

enum class QkNorm : uint8_t {
  kNone,
  kPerHead,  ///< weight [head_dim], over each head
  kFullRow,  ///< weight [heads * head_dim], over the whole row before it is split into heads
};

/// Grouped-query attention.
struct AttentionSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  bool qkv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  float clip_qkv = 0;  ///< clamp q, k, v to [-c, c] after the norms; 0: off
  float scale = 1.0f;  ///< on q . k
};

/// Mixture of experts: chosen experts, and beside them a shared one if shared_width > 0.
struct MoeSpec {
  compute::RouterParams router;
  int expert_width = 0;
  int shared_width = 0;
  bool shared_gate = false;  ///< the shared expert's output times sigmoid(gate . x)
};

/// One decoder layer: x += attention(norm(x)); x += ffn(norm(x)).
struct LayerSpec {
  bool moe = false;     ///< experts, else one dense MLP
  int dense_width = 0;  ///< of the dense MLP
};

struct ModelSpec {
  std::string family;
  int vocab_size = 0;
  int hidden_size = 0;
  int64_t context = 0;  ///< positions that the model was trained for
  float norm_eps = 1e-6f;
  bool tied_head = false;  ///< the output head is the embedding table
  RopeSpec rope;
  AttentionSpec attention;
  MoeSpec moe;
  std::vector<LayerSpec> layers;

  int n_layers() const { return static_cast<int>(layers.size()); }
  int n_moe_layers() const;
  int query_width() const { return attention.n_heads * attention.head_dim; }
  int kv_width() const { return attention.n_kv_heads * attention.head_dim; }
};

}  // namespace colibri::model
