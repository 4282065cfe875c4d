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
  bool flag_or(std::string_view key, bool fallback);
  std::string text_or(std::string_view key, std::string_view fallback);
  /// Layer numbers; empty when the key is absent or null.
  std::vector<int> layers_or_empty(std::string_view key, int n_layers);
  /// nullptr when absent or null. Counts as reading the key.
  const Json* find(std::string_view key);

  /// The setting must be absent, null, false, or `neutral`: this family has no code for anything else.
  void require_neutral(std::string_view key, const Json& neutral);
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

/// What all decoder-only families of the Llama line share: sizes, norm, RoPE, heads. The family's reader adds the rest.
ModelSpec read_common(ConfigReader& reader, std::string_view family);

/// rope_theta and rope_scaling, or rope_parameters.
RopeSpec read_rope(ConfigReader& reader, int head_dim);

/// Which layers have experts, from mlp_only_layers and decoder_sparse_step (Qwen).
std::vector<LayerSpec> read_sparse_layers(ConfigReader& reader, int n_layers, int dense_width);

}  // namespace colibri::model
