// What `inspect` says about a model's shape, and which of its tensors are recognised but not loaded.
// Thread-safety: pure functions.
#pragma once

#include "base/json.h"
#include "formats/catalog.h"
#include "model/spec.h"

namespace colibri::engine {

Json shape_of_model(const model::ModelSpec& spec);

/// {"vision tower": {"tensors": n, "bytes": b}, ...}; null when everything is loaded.
Json unused_tensors(const formats::TensorCatalog& catalog, const model::ModelSpec& spec);

}  // namespace colibri::engine
