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

/// What a family's configs leave out, or say in other words. Not for GGUF: its files mean what llama.cpp computes.
struct FamilyKeys {
  struct Default {
    std::string_view key;
    Json value;  ///< what transformers' configuration class has when the key is absent
  };
  struct Synonym {
    std::string_view key, other;  ///< `other` is the same setting; both may be there when they agree
  };
  std::vector<Default> defaults = {};
  std::vector<Synonym> synonyms = {};
  std::vector<std::string_view> unused = {};  ///< in published configs, and without effect in this family
  bool partial_rotary = false;                ///< the family has partial_rotary_factor: part of a head may turn
};

class ConfigReader {
 public:
  /// A family's config. `keys` outlives the reader.
  ConfigReader(const Json& config, std::string source, const FamilyKeys& keys)
      : config_(config), source_(std::move(source)), keys_(&keys) {}

  /// A whole number from 1 to `max`; the key must be there.
  int size(std::string_view key, int64_t max = 1 << 30);
  /// The same; `fallback` when the key is absent or null.
  int size_or(std::string_view key, int fallback, int64_t max = 1 << 30);
  /// A whole number that may be 0.
  int count_or(std::string_view key, int fallback);
  double positive(std::string_view key);
  double positive_or(std::string_view key, double fallback);
  double number_or(std::string_view key, double fallback);
  /// Above 0, at most 1.
  double fraction_or(std::string_view key, double fallback);
  bool flag_or(std::string_view key, bool fallback);
  /// An entry of a list with one per layer, of 0 and 1 or of false and true; `fallback` without the list.
  bool flag_at_or(std::string_view key, int layer, bool fallback);
  /// A pair of bounds, the second of which may be infinite, in any of the spellings that configs have; unchanged when
  /// absent.
  void read_limits(std::string_view key, float& low, float& high);
  std::string text_or(std::string_view key, std::string_view fallback);
  /// Layer numbers; empty when the key is absent or null.
  std::vector<int> layers_or_empty(std::string_view key, int n_layers);
  /// nullptr when absent or null. Counts as reading the key.
  const Json* find(std::string_view key);
  /// An entry of a list that has one per layer, or the same number for all of them.
  int size_at(std::string_view key, int layer, int64_t max = 1 << 30);
  /// The config's own value, without counting it as read; nullptr when absent or null.
  const Json* peek(std::string_view key) const { return config_.find_value(key); }
  bool has(std::string_view key) const { return peek(key) != nullptr; }
  /// The metadata of a GGUF file, in which some settings mean what llama.cpp computes.
  bool from_gguf() const { return config_.find_value("gguf") != nullptr; }
  bool partial_rotary() const { return from_gguf() || (keys_ != nullptr && keys_->partial_rotary); }

  /// The setting must be absent, null, false, or `neutral`: this family has no code for anything else.
  void require_neutral(std::string_view key, const Json& neutral);
  /// The setting must be absent, null or `expected`.
  void require_value(std::string_view key, const Json& expected);
  /// Records a problem (kInvalidModel) unless there is one already.
  void fail(std::string_view key, const std::string& what);
  void fail_unsupported(std::string_view key, const std::string& what);
  bool failed() const { return error_.has_value(); }

  /// The spec, or the first problem. What was never read must be known to change nothing, be off, or say what the spec
  /// does anyway: nothing is ignored that could change the result.
  Result<ModelSpec> finish(ModelSpec spec);
  /// A reader of an object inside this config, for messages that name both.
  ConfigReader block(const Json& object, std::string_view key) const;
  /// Makes a block's problem this config's.
  void take(const Status& status);
  /// The first problem of a block, or of the keys in it that were never read and are not off.
  Status finish_block();

 private:
  ConfigReader(const Json& block, std::string source) : config_(block), source_(std::move(source)) {}
  std::string name_of(std::string_view key) const;
  void record(ErrorCode code, std::string_view key, const std::string& what);
  double number(std::string_view key, const Json& value, double low, double high);
  const Json* find_synonym(std::string_view key, const Json* value);
  void check_unread(std::string_view key, const Json& value, const ModelSpec& spec);

  const Json& config_;
  std::string source_;
  const FamilyKeys* keys_ = nullptr;
  std::set<std::string, std::less<>> read_;
  std::optional<Error> error_;
};

/// What all decoder-only families share: sizes, norm, heads, one kind of attention with one RoPE. The family's reader
/// adds the rest.
ModelSpec read_common(ConfigReader& reader, std::string_view family, std::string_view layers_key = "num_hidden_layers",
                      std::string_view eps_key = "rms_norm_eps");

/// The RoPE of `block` (rope_parameters, rope_scaling, or an entry of the former), where `rotary_dim` elements of a
/// head turn unless the block says partial_rotary_factor of `head_dim`. Its rope_theta wins over the config's.
RopeSpec read_rope(ConfigReader& reader, const Json* block, int head_dim, int rotary_dim);
/// The same for the config's only RoPE.
RopeSpec read_rope(ConfigReader& reader, int head_dim, int rotary_dim);

/// m^2 of YaRN's mscale_all_dim, which latent attention multiplies its scores with; 1 without.
float yarn_score_factor(ConfigReader& reader);

/// A number as the whole number that it is; others stay as they are.
Json whole_number(double value);

/// The key of a GGUF file that a key of its translated config is from (families/gguf_config.cc).
std::string gguf_key_of(const std::string& architecture, std::string_view key);

/// Keys of any family, by name (families/config_keys.cc): those of training, generation, tokens, other modalities and
/// bookkeeping change nothing in the forward pass.
bool changes_nothing(std::string_view key);
/// Null, false, zero, or empty.
bool is_off(const Json& value);
/// Whether a setting that the family does not read is what the spec does anyway. Empty: nobody knows this setting.
std::optional<bool> agrees(std::string_view key, const Json& value, const ModelSpec& spec);

/// The entries of layer_types, or of `key`; empty when absent. kInvalidModel unless there is one for each layer.
std::vector<std::string> read_layer_types(ConfigReader& reader, int n_layers, std::string_view key = "layer_types");

/// Every entry of layer_types must be `type`, where the config has the list.
void require_layer_types(ConfigReader& reader, const ModelSpec& spec, std::string_view type);

/// Layers of type sliding_attention get a copy of attentions[0] with a window, as attentions[1]; every other type must
/// be full_attention. REQUIRES: one attention.
void split_sliding(ConfigReader& reader, ModelSpec& spec, const std::vector<std::string>& types, int window);

/// Where the config has `key`, every interval-th layer and no other must be full_attention.
void check_interval(ConfigReader& reader, const char* key, int interval, const std::vector<std::string>& types);

/// Layers that turn get attentions[0], the others attentions[1]: no_rope_layers has a 1 for each layer that turns;
/// without it, every no_rope_layer_interval-th does not.
void read_rope_layers(ConfigReader& reader, ModelSpec& spec);

/// How the experts fall into groups, by the family's names for it. REQUIRES: n_experts and top_k are set.
void read_groups(ConfigReader& reader, compute::RouterParams& router, const char* groups_key,
                 const char* chosen_key = "topk_group");

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
