// ConfigReader: typed, checked access to a model's config, for the family readers.
//
// The config is that of Hugging Face; for GGUF files families/gguf_config.cc writes one of the same shape. The first
// problem is kept and every later read returns a harmless value, so a reader is a plain list of assignments that ends
// with `return reader.finish(spec)`.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/spec.h"

namespace colibri::model {

class ConfigReader {
 public:
  ConfigReader(const Json& config, std::string source) : config_(config), source_(std::move(source)) {}

  /// A whole number from 1 to `max`; the key must be there.
  int size(std::string_view key, int64_t max = 1 << 30);
  /// The same; `fallback` when the key is absent or null.
  int size_or(std::string_view key, int fallback, int64_t max = 1 << 30);
  /// A whole number that may be 0.
  int count_or(std::string_view key, int fallback);
  double positive(std::string_view key);
  double positive_or(std::string_view key, double fallback);
  double number_or(std::string_view key, double fallback);
  bool flag_or(std::string_view key, bool fallback);
  /// An entry of a list with one per layer, of 0 and 1 or of false and true; `fallback` without the list.
  bool flag_at_or(std::string_view key, int layer, bool fallback);
  /// A bound that may be infinite, in any of the spellings that configs have. `value` is of `key`.
  double limit(const Json& value, std::string_view key);
  std::string text_or(std::string_view key, std::string_view fallback);
  /// Layer numbers; empty when the key is absent or null.
  std::vector<int> layers_or_empty(std::string_view key, int n_layers);
  /// nullptr when absent or null. Counts as reading the key.
  const Json* find(std::string_view key);
  /// An entry of a list that has one per layer, or the same number for all of them.
  int size_at(std::string_view key, int layer, int64_t max = 1 << 30);
  /// The metadata of a GGUF file, in which some settings mean what llama.cpp computes.
  bool from_gguf() const { return config_.find_value("gguf") != nullptr; }

  /// The setting must be absent, null, false, or `neutral`: this family has no code for anything else.
  void require_neutral(std::string_view key, const Json& neutral);
  /// The setting must be absent, null or `expected`.
  void require_value(std::string_view key, const Json& expected);
  /// Records a problem (kInvalidModel) unless there is one already.
  void fail(std::string_view key, const std::string& what);
  void fail_unsupported(std::string_view key, const std::string& what);
  bool failed() const { return error_.has_value(); }

  /// The spec, or the first problem. Settings known to change some family's forward pass that were never read must be
  /// neutral: nothing is ignored that would change the result.
  Result<ModelSpec> finish(ModelSpec spec);

 private:
  void record(ErrorCode code, std::string_view key, const std::string& what);
  double number(std::string_view key, const Json& value, double low, double high);

  const Json& config_;
  std::string source_;
  std::set<std::string, std::less<>> read_;
  std::optional<Error> error_;
};

/// What all decoder-only families share: sizes, norm, heads, one kind of attention with one RoPE. The family's reader
/// adds the rest.
ModelSpec read_common(ConfigReader& reader, std::string_view family, std::string_view layers_key = "num_hidden_layers");

/// The RoPE of `block` (rope_parameters, rope_scaling, or an entry of the former), where `rotary_dim` elements of a
/// head turn unless the block says partial_rotary_factor of `head_dim`. Its rope_theta wins over the config's.
RopeSpec read_rope(ConfigReader& reader, const Json* block, int head_dim, int rotary_dim);
/// The same for the config's only RoPE.
RopeSpec read_rope(ConfigReader& reader, int head_dim, int rotary_dim);

/// m^2 of YaRN's mscale_all_dim, which latent attention multiplies its scores with; 1 without.
float yarn_score_factor(ConfigReader& reader);

/// The entries of layer_types, or of `key`; empty when absent. kInvalidModel unless there is one for each layer.
std::vector<std::string> read_layer_types(ConfigReader& reader, int n_layers, std::string_view key = "layer_types");

/// Every entry of layer_types must be `type`, where the config has the list.
void require_layer_types(ConfigReader& reader, const ModelSpec& spec, std::string_view type);

/// Layers of type sliding_attention get a copy of attentions[0] with a window, as attentions[1]; every other type must
/// be full_attention. REQUIRES: one attention.
void split_sliding(ConfigReader& reader, ModelSpec& spec, const std::vector<std::string>& types, int window);

/// Which layers have experts, from mlp_only_layers and decoder_sparse_step (Qwen).
void read_sparse_layers(ConfigReader& reader, ModelSpec& spec, int dense_width);
/// The first `n_dense` layers have a dense MLP of that width, the others experts.
void first_layers_dense(ModelSpec& spec, int n_dense, int dense_width);
void all_layers_moe(ModelSpec& spec);
void all_layers_dense(ModelSpec& spec, int width);

/// Width of shared experts taken together: `count_key` says how many there are. GGUF files say the width.
int read_shared_width(ConfigReader& reader, std::string_view count_key, int expert_width);

/// Experts and their choice, by the names of DeepSeek-V3: sigmoid, bias for choosing, groups, scale.
void read_deepseek_router(ConfigReader& reader, ModelSpec& spec);
/// The widths and ranks of latent attention, by DeepSeek's names, into attentions[0].
void read_latent_attention(ConfigReader& reader, ModelSpec& spec);

}  // namespace colibri::model
