// OpenedModel: a model's files, read as far as is possible without its weights: what opening an engine and planning one
// have in common.
//
// Ownership: parts point into each other, so an object stays where it is. Thread-safety: constant once it is open.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/text_model.h"
#include "formats/catalog.h"
#include "model/families/family.h"
#include "model/weights.h"
#include "sampling/sampler.h"

namespace colibri::engine {

struct OpenedModel {
  formats::TensorCatalog catalog;  ///< without metadata
  model::ModelDescription description;
  std::optional<TextModel> text;             ///< empty when the model has none, or none was wanted
  std::optional<model::WeightPlan> weights;  ///< set

  /// Everything that can be known to be wrong before memory is planned: damaged files, a config or a tokenizer of
  /// another model, missing tensors. Errors name the file.
  static Result<std::unique_ptr<OpenedModel>> open(const std::string& path, bool without_text);
};

/// generation_config.json, else temperature 1 without filters.
sampling::SamplingParams sampling_defaults(const model::ModelDescription& description);

}  // namespace colibri::engine
