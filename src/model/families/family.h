// Family: one model architecture as a row of data. The decoder loop never asks which family it runs.
//
// Adding a family: a file in this folder with a config reader and its tensor names, and a line in registry.cc.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "formats/catalog.h"
#include "formats/quantisation.h"
#include "model/families/config.h"
#include "model/spec.h"

namespace colibri::model {

/// Where the canonical tensors are in a file. {L} is the layer, {E} the expert. A name stands for NAME.weight or NAME
/// itself, and, where the spec has biases, for NAME.bias. nullptr: this layout has no such tensor.
struct TensorNames {
  const char* embed = nullptr;
  const char* final_norm = nullptr;
  const char* head = nullptr;

  const char *attention_norm = nullptr, *attention_post_norm = nullptr;  ///< of the mixer, whatever it is
  const char *ffn_norm = nullptr, *ffn_post_norm = nullptr;
  const char* layer_scale = nullptr;                                                      ///< [1]
  const char *mixer_streams = nullptr, *ffn_streams = nullptr, *final_streams = nullptr;  ///< _fn, _base, _scale follow

  // Attention.
  const char *q = nullptr, *k = nullptr, *v = nullptr, *output = nullptr;
  const char* qkv = nullptr;             ///< q, k and v in one tensor, one after the other
  const char* gate_attention = nullptr;  ///< output gate
  const char* q_gate = nullptr;          ///< q and output gate in one tensor, side by side in every head
  const char *q_norm = nullptr, *k_norm = nullptr;
  const char* sinks = nullptr;                                            ///< [heads]
  const char *q_down = nullptr, *q_down_norm = nullptr, *q_up = nullptr;  ///< latent attention
  const char *kv_down = nullptr, *kv_down_norm = nullptr;                 ///< [latent + rope, hidden]
  const char* kv_up = nullptr;                                            ///< [heads * (nope + value), latent]
  const char *key_up = nullptr, *value_up = nullptr;  ///< GGUF: [heads, latent, nope] and [heads, value, latent]
  const char *index_q = nullptr, *index_k = nullptr, *index_k_norm = nullptr, *index_weights = nullptr;
  const char* output_down = nullptr;                              ///< [groups * rank, heads of a group * head_dim]
  const char *compressor = nullptr, *index_compressor = nullptr;  ///< .wkv, .wgate, .ape and .norm follow

  // Delta rule. Several layouts of the same projections; a family names those that it has.
  const char *delta_q = nullptr, *delta_k = nullptr, *delta_v = nullptr, *delta_z = nullptr, *delta_b = nullptr,
             *delta_a = nullptr;
  const char *delta_z_down = nullptr, *delta_a_down = nullptr;  ///< first matrices of z and a, where they have a rank
  const char* delta_qkv = nullptr;                              ///< q, k and v one after the other
  const char* delta_qkvz = nullptr;                             ///< per key head: q, k, v, z
  const char* delta_ba = nullptr;                               ///< per key head: b, a
  const char *delta_q_conv = nullptr, *delta_k_conv = nullptr, *delta_v_conv = nullptr,
             *delta_qkv_conv = nullptr;   ///< [channels, 1, kernel]
  const char* delta_log_decay = nullptr;  ///< log of the decay rate, by head
  const char* delta_decay = nullptr;      ///< GGUF: -exp of it
  const char *delta_step_bias = nullptr, *delta_norm = nullptr, *delta_output = nullptr;

  // Mamba-2.
  const char *mamba_in = nullptr, *mamba_conv = nullptr, *mamba_log_decay = nullptr, *mamba_decay = nullptr,
             *mamba_skip = nullptr, *mamba_step_bias = nullptr, *mamba_norm = nullptr, *mamba_out = nullptr;

  // Short convolution.
  const char *conv_in = nullptr, *conv = nullptr, *conv_out = nullptr;

  // Feed-forward.
  const char *gate = nullptr, *up = nullptr, *down = nullptr;  ///< dense MLP
  const char* dense_post_norm = nullptr;                       ///< of the dense MLP beside experts
  const char *router = nullptr, *router_norm = nullptr, *choice_bias = nullptr, *expert_scale = nullptr;
  const char* token_experts = nullptr;                                              ///< [vocab, top_k]
  const char *experts_norm = nullptr, *experts_post_norm = nullptr;                 ///< of experts beside a dense MLP
  const char *expert_gate = nullptr, *expert_up = nullptr, *expert_down = nullptr;  ///< one tensor per expert
  const char *stacked_gate = nullptr, *stacked_up = nullptr;                        ///< [E, width, hidden]
  const char* stacked_gate_up = nullptr;                                            ///< [E, 2 width, hidden]
  const char* stacked_down = nullptr;                                               ///< [E, hidden, width]
  const char *stacked_gate_up_bias = nullptr, *stacked_down_bias = nullptr;
  const char *shared_gate = nullptr, *shared_up = nullptr, *shared_down = nullptr;
  const char* shared_gate_up = nullptr;  ///< [2 width, hidden]
  const char* shared_router = nullptr;   ///< [1, hidden]

  // How the stacked tensors lie.
  bool stacked_transposed = false;   ///< [E, hidden, 2 width] and [E, width, hidden]
  bool gate_up_interleaved = false;  ///< gate and up rows alternate, else gate first
};

extern const TensorNames kHuggingFaceNames;  ///< the common layout; families override fields
extern const TensorNames kDeepseekNames;     ///< the same with "shared_experts"
extern const TensorNames kMixtralNames;      ///< the same with "block_sparse_moe" and w1, w2, w3
extern const TensorNames kGgufNames;         ///< likewise for GGUF

/// A GGUF file while its metadata becomes a Hugging Face config. Keys are those after "{architecture}.".
/// Keys that were asked for are remembered: the others must be without effect.
struct GgufFile {
  const formats::TensorCatalog& catalog;
  std::string architecture;
  std::string source;  ///< for messages
  mutable std::set<std::string, std::less<>> read = {};

  const Json* find(std::string_view key) const;
  double number_or(std::string_view key, double fallback) const;
  /// The entry of a list with one per layer, or the number that all layers share; 0 when there is none.
  double number_at(std::string_view key, int layer) const;
  int n_layers() const;  ///< without those that predict further tokens
  bool has(std::string_view tensor, int layer) const;
  /// kInvalidModel: the key, its value and what is wrong with it.
  Error wrong(std::string_view key, const std::string& what) const;
  void copy(std::string_view key, std::string_view name, Json& config) const;
  /// attention.sliding_window_pattern: a list, or after how many layers one without a window comes.
  void copy_windows(std::string_view interval_key, Json& config) const;
  /// A list for layer_types: `yes` where the layer's entry is not 0.
  Json layer_types(std::string_view key, std::string_view yes, std::string_view no) const;
  /// A short F32 tensor as a list of positive numbers; null when there is none.
  Result<Json> floats(std::string_view tensor) const;
};

struct Family {
  std::string_view name;                        ///< model_type
  std::vector<std::string_view> architectures;  ///< architectures[0], in any spelling
  std::string_view gguf_architecture;           ///< empty: llama.cpp has none
  Result<ModelSpec> (*read_config)(ConfigReader& reader);
  FamilyKeys keys = {};
  const TensorNames* names = &kHuggingFaceNames;  ///< in safetensors
  const TensorNames* gguf_names = &kGgufNames;
  bool gguf_interleaves_qk = false;  ///< GGUF rows of q and k are permuted for interleaved RoPE
  /// Writes what the common translation of GGUF metadata leaves out, or nullptr.
  Status (*translate_gguf)(const GgufFile& file, Json& config) = nullptr;
};

std::span<const Family* const> families();

/// A model's description, before any weight is read.
struct ModelDescription {
  const Family* family = nullptr;
  ModelSpec spec;
  const TensorNames* names = nullptr;
  formats::Quantisation quantisation;
  bool interleaved_qk = false;    ///< rows of q and k are to be put back into halves
  bool folded_norms = false;      ///< norm weights that are stored minus one elsewhere are whole here
  std::vector<int32_t> eos_ids;   ///< union of config and generation_config
  Json generation_config;         ///< object; empty when there is none
  std::string generation_source;  ///< the file it is from, for messages
};

/// The folder that a model's config, tokenizer and the like are in: the path itself, or the one its file is in.
std::string model_folder(const std::string& path);

/// A JSON file of a model, at most 64 MiB; errors name the file.
Result<Json> read_config_file(const std::string& path);

/// Reads config.json (or the GGUF metadata) and picks the family. kUnsupported names the family, the nearest supported
/// one and what is missing; a model_type that contradicts `architectures` is kInvalidModel with both.
Result<ModelDescription> describe_model(const std::string& path, const formats::TensorCatalog& catalog);

/// The same from a config that is already parsed; what the fuzzer calls. `source` is for messages.
Result<ModelDescription> describe_config(const Json& config, const std::string& source);

/// GGUF metadata as a Hugging Face config (families/gguf_config.cc).
Result<Json> config_from_gguf(const formats::TensorCatalog& catalog, const std::string& source);

}  // namespace colibri::model
