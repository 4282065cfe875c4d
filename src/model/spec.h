// ModelSpec: what a model computes, as data. A family's reader fills it in from the config; the decoder loop reads it.
//
// A layer is a mixer (tokens look at earlier ones) and a feed-forward block, each with its norms and a residual around
// it; either may be missing. What layers have in common stands once: a layer names its attention by number, and an
// attention its RoPE. Nothing here says where the model came from: safetensors and GGUF give the same spec, except
// where the two really mean different numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "compute/backend.h"

namespace colibri::model {

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn, kLong };

/// Rotary position embedding of one kind of layer.
struct RopeSpec {
  int rotary_dim = 0;
  bool interleaved = false;  ///< element 2i turns with 2i + 1, else i with i + rotary_dim / 2
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  double original_context = 0;         ///< llama3, yarn; longrope: longer prompts take the long factors
  double low_freq_factor = 1.0;        ///< llama3
  double high_freq_factor = 4.0;       ///< llama3
  double beta_fast = 32.0;             ///< yarn
  double beta_slow = 1.0;              ///< yarn
  bool truncate = true;                ///< yarn: round the correction range
  double attention_factor = 1.0;       ///< on cos and sin
  double long_attention_factor = 1.0;  ///< likewise, with the long factors
  std::vector<float>
      frequency_divisors;  ///< [rotary_dim / 2], infinite: does not turn; longrope: the short ones; empty: none
  std::vector<float> long_divisors;  ///< longrope

  bool has_long() const { return scaling == RopeScaling::kLong; }
};

enum class QkNorm : uint8_t {
  kNone,
  kPerHead,   ///< weight [head_dim], over each head
  kFullRow,   ///< weight [heads * head_dim], over the whole row before it is split into heads
  kNoWeight,  ///< over each head, without a weight
};

/// What an attention's output is multiplied with, through a sigmoid, before the output projection.
enum class OutputGate : uint8_t { kNone, kPerHead, kPerChannel };

/// The sparse attention of DeepSeek-V3.2: an indexer scores all keys, and only the best take part.
struct IndexerSpec {
  int n_heads = 0;  ///< 0: none, attention sees every key
  int head_dim = 0;
  int top_k = 0;
  bool interleaved = false;  ///< how it rotates its first elements
};

/// Beside the window, keys that each stand for a run of positions (DeepSeek-V4). Their indexer compresses likewise.
struct CompressorSpec {
  int rate = 0;          ///< positions of a run; 0: none
  bool overlap = false;  ///< an entry also takes something from the run before its own
};

/// Attention over keys and values: grouped-query, latent (MLA), or with one shared key (DeepSeek-V4).
struct AttentionSpec {
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;    ///< of queries and keys; latent: nope + rope
  int value_dim = 0;   ///< of values
  int rope = -1;       ///< which of ModelSpec::ropes; -1: none
  float scale = 1.0f;  ///< on q . k
  int window = 0;      ///< key j is visible to query i if i - j < window; 0: all
  int chunk = 0;       ///< only keys of the same chunk of positions; 0: all
  float soft_cap = 0;  ///< on scores; 0: off
  bool sinks = false;  ///< one more logit per head in the denominator
  bool qkv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool norm_after_rope = false;
  float clip_qkv = 0;           ///< clamp q, k, v to [-c, c] after the norms; 0: off
  bool value_is_key = false;    ///< no projection for v: it is k before norm and RoPE
  bool value_norm = false;      ///< norm without weight over each head of v
  float value_scale = 1.0f;     ///< on v
  float temperature_scale = 0;  ///< queries times 1 + this * log(floor((position + 1) / temperature_floor) + 1); 0: off
  float temperature_floor = 1;
  OutputGate output_gate = OutputGate::kNone;

  // Latent attention. Keys and values of all heads are one latent row, which is what the cache holds.
  int latent_dim = 0;             ///< kv_lora_rank; 0: not latent
  int query_rank = 0;             ///< q_lora_rank; 0: queries are one projection
  int nope_dim = 0;               ///< elements of a head before those that turn
  float latent_norm_eps = 1e-6f;  ///< of the norms of both ranks
  float latent_scale = 1.0f;      ///< on the normed latent
  IndexerSpec indexer;
  bool shares_indexer = false;  ///< uses the choice of the last layer that has an indexer

  // One key of full width is also the value of all heads. The last elements of heads turn, those of outputs turn back.
  // Queries have a rank and a norm without weight over each head.
  bool shared_key = false;
  int output_groups = 0;  ///< of heads, each of which the output projection first brings to output_rank
  int output_rank = 0;
  CompressorSpec compressor;  ///< its indexer, if there is one, chooses among the compressed keys

  bool latent() const { return latent_dim > 0; }
  int rope_dim() const { return head_dim - nope_dim; }  ///< latent: elements that turn
  int query_width() const { return n_heads * head_dim; }
  int key_width() const { return n_kv_heads * head_dim; }
  int value_width() const { return n_kv_heads * value_dim; }
  int output_width() const { return n_heads * value_dim; }
};

/// Where the decay of a delta-rule layer comes from.
enum class DeltaDecay : uint8_t {
  kPerHead,         ///< -exp(A) softplus(a + bias), one per value head (Gated DeltaNet)
  kPerChannel,      ///< the same for every channel of the keys (KDA)
  kBoundedChannel,  ///< lower bound * sigmoid(exp(A) (a + bias)) for every channel of the keys
};

/// A linear attention whose state is corrected towards each new value: Gated DeltaNet, Kimi Delta Attention.
struct DeltaSpec {
  int n_key_heads = 0, n_value_heads = 0;
  int key_dim = 0, value_dim = 0;
  int conv_kernel = 0;
  bool tiled_heads = false;  ///< value head j reads key head j % n_key_heads, else j / (value heads per key head)
  DeltaDecay decay = DeltaDecay::kPerHead;
  float lower_bound = 0;      ///< kBoundedChannel
  int gate_rank = 0;          ///< decay and gate come through two matrices of this rank; 0: one matrix
  bool sigmoid_gate = false;  ///< of the output norm, else SiLU

  int key_width() const { return n_key_heads * key_dim; }
  int value_width() const { return n_value_heads * value_dim; }
};

/// Mamba-2.
struct MambaSpec {
  int n_heads = 0, head_dim = 0, n_groups = 0, state_dim = 0;
  int conv_kernel = 0;
  bool conv_bias = false;
  float min_step = 0, max_step = HUGE_VALF;  ///< bounds of softplus(dt + bias)
  int norm_groups = 1;                       ///< of the gated norm

  int inner() const { return n_heads * head_dim; }
  int conv_width() const { return inner() + 2 * n_groups * state_dim; }
};

/// LFM2's gated short convolution.
struct ShortConvSpec {
  int kernel = 0;
  bool bias = false;
};

/// Mixture of experts: chosen experts, and beside them a shared one if shared_width > 0.
struct MoeSpec {
  compute::RouterParams router;  ///< the biases are weights: ModelWeights has them by layer
  int expert_width = 0;
  int shared_width = 0;
  bool shared_gate = false;      ///< the shared expert's output times sigmoid(gate . x)
  bool router_bias = false;      ///< added to the logits
  bool choice_bias = false;      ///< added to the scores for choosing
  bool expert_scale = false;     ///< every expert's weight times a number of its own
  bool expert_bias = false;      ///< of the experts' projections
  bool weight_on_input = false;  ///< the weight multiplies what the expert reads, not what it gives
  int identity_experts = 0;      ///< the last ids of the router give back their input
  bool own_norms = false;        ///< reads and gives through norms of its own, beside a dense MLP (Gemma 4)
  float router_norm_scale =
      0;  ///< > 0: the router reads RMS(residual) * weight * this instead of the input of the block

  int n_stored() const { return router.n_experts - identity_experts; }  ///< experts that have weights
};

/// Several residual streams: a block reads a weighted sum of them and adds to a mixture of them (hyper-connections).
struct StreamSpec {
  int n = 0;  ///< 0: the one residual stream
  int iterations = 1;
  float eps = 0;
};

enum class Mixer : uint8_t { kNone, kAttention, kDelta, kMamba, kShortConv };

/// One decoder layer: x += mixer(norm(x)); x += ffn(norm(x)).
struct LayerSpec {
  int number = 0;  ///< as configs and reports count it
  int part = 0;    ///< which of its halves, where the family counts two as one (LongCat)
  Mixer mixer = Mixer::kAttention;
  int attention = 0;      ///< which of ModelSpec::attentions
  int dense_width = 0;    ///< of the dense MLP; 0: none
  bool moe = false;       ///< experts, added to the dense MLP if there is one
  bool late_moe = false;  ///< what the experts give is added at the end of the next layer (LongCat)
  bool hash_moe = false;  ///< the token's id chooses the experts

  bool has_ffn() const { return moe || dense_width > 0; }
};

struct ModelSpec {
  std::string family;
  int vocab_size = 0;
  int hidden_size = 0;
  int64_t context = 0;  ///< positions that the model was trained for
  float norm_eps = 1e-6f;
  bool layer_norm = false;     ///< norms subtract the mean and have biases, else RMS
  bool norm_plus_one = false;  ///< norm weights are stored minus one
  bool pre_norm = true;        ///< blocks read norm(x)
  bool post_norm = false;      ///< blocks give norm(y)
  bool tied_head = false;      ///< the output head is the embedding table
  bool head_bias = false;
  bool mlp_bias = false;
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  ///< on what a block adds
  float logit_scale = 1.0f;
  float logit_cap = 0;        ///< cap * tanh(logit / cap); 0: off
  int prediction_layers = 0;  ///< behind the last layer, for predicting further tokens: in the file, never loaded
  bool layer_scale = false;   ///< every layer ends with a multiplication of x
  compute::Activation activation;
  std::vector<RopeSpec> ropes;
  std::vector<AttentionSpec> attentions;
  DeltaSpec delta;
  MambaSpec mamba;
  ShortConvSpec conv;
  MoeSpec moe;
  StreamSpec streams;
  std::vector<LayerSpec> layers;
  std::vector<std::string> notes;  ///< where the numbers are not those of the usual reference, for people

  int n_layers() const { return static_cast<int>(layers.size()); }
  int n_moe_layers() const;
  const AttentionSpec& attention_of(const LayerSpec& layer) const {
    return attentions[static_cast<size_t>(layer.attention)];
  }
  /// A sequence with a prompt of this length takes the long RoPE factors, and keeps them while it grows.
  bool takes_long_factors(int64_t prompt_tokens) const;
  /// Some layer keeps state that is not keys and values: a sequence cannot be cut back to an earlier position.
  bool recurrent() const;
};

}  // namespace colibri::model
