// Family: one model architecture as a row of data. The decoder loop never asks which family it runs.
//
// Adding a family: a file in this folder with a config reader and its tensor names, and a line in registry.cc.
#pragma once

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

/// Where the canonical tensors are in a file. {L} is the layer, {E} the expert. A name without suffix stands for
/// NAME.weight and, where the spec has biases, NAME.bias. nullptr: this layout has no such tensor.
struct TensorNames {
  const char* embed;
  const char* final_norm;
  const char* head;
  const char* attention_norm;
  const char *q, *k, *v, *output;
  const char *q_norm, *k_norm;
  const char* ffn_norm;
  const char *gate, *up, *down;  ///< dense MLP
  const char* router;
  const char *expert_gate, *expert_up, *expert_down;  ///< one tensor per expert
  const char *stacked_gate, *stacked_up;              ///< [E, width, hidden]
  const char* stacked_gate_up;                        ///< [E, 2 width, hidden], gate rows first
  const char* stacked_down;                           ///< [E, hidden, width]
  const char *shared_gate, *shared_up, *shared_down;
  const char* shared_router;  ///< [1, hidden]
};

extern const TensorNames kHuggingFaceNames;  ///< the common layout; families override fields
extern const TensorNames kMixtralNames;
extern const TensorNames kGgufNames;  ///< the same for every family

struct Family {
  std::string_view name;          ///< model_type
  std::string_view architecture;  ///< architectures[0]
  std::string_view gguf_architecture;
  Result<ModelSpec> (*read_config)(ConfigReader& reader);
  const TensorNames* names;  ///< in safetensors
  bool gguf_interleaves_qk;  ///< GGUF rows of q and k are permuted for interleaved RoPE
};

std::span<const Family* const> families();

extern const Family kLlama, kQwen3, kMixtral, kQwen2Moe, kQwen3Moe, kOlmoe;

/// A model's description, before any weight is read.
struct ModelDescription {
  const Family* family = nullptr;
  ModelSpec spec;
  const TensorNames* names = nullptr;
  formats::Quantisation quantisation;
  bool interleaved_qk = false;    ///< rows of q and k are to be put back into halves
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
