// Facts in a converted model's colibri_config.json: they describe the weights and are checked against them. (Settings
// in the same file are the program's business.)
#pragma once

#include <string>

#include "base/result.h"
#include "formats/catalog.h"
#include "model/spec.h"

namespace colibri::engine {

/// kInvalidModel names the fact, what the file says and what the weights say. No file: fine.
Status check_config_facts(const std::string& model_path, const model::ModelSpec& spec,
                          const formats::TensorCatalog& catalog);

}  // namespace colibri::engine
