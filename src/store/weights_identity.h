// What tells two models apart whose tensors have the same names, types, shapes and places: a fine-tune in the same file
// type. For results that are kept between runs, such as computed prefixes; hints such as heat need only
// model_identity().
//
// Reads a few kilobytes of each file. Two models are taken for one only if their files have the same layout, the same
// times of modification and the same bytes at all places that are looked at; a model that was touched is another.
// Thread-safety: a function without state.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "formats/catalog.h"

namespace colibri::store {

/// kIo when a file cannot be read.
Result<uint64_t> weights_identity(const formats::TensorCatalog& catalog);

}  // namespace colibri::store
