// Quantised sources: finds the tensors of a module, however its weights are stored, and says where its matrix lies.
//
// A module's tensors decide whether it is quantised: lists of exceptions in configs are patterns of many dialects, and
// routers or embeddings are left out without being named. What the tensors then mean, the config decides. Called when a
// model is planned; reads no weights. Pure functions; sources point into the catalog.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/catalog.h"
#include "formats/quantisation.h"
#include "store/matrix_source.h"

namespace colibri::store {

/// The tensor with the module's own numbers: NAME.weight, NAME.qweight, NAME.weight_packed, NAME_blocks or NAME itself;
/// nullptr when there is none.
const formats::TensorInfo* find_module(const formats::TensorCatalog& catalog, const std::string& name);

/// The matrix of module `name`, whose weight has `shape`: [outputs, inputs], or stacked [..., outputs, inputs], seen as
/// one matrix of all outputs. The best encoding is chosen. Errors name the tensor, what was expected and what is there.
Result<MatrixSource> find_matrix(const formats::TensorCatalog& catalog, const formats::Quantisation& quantisation,
                                 const std::string& name, const Shape& shape);

/// All tensors that the source is read from.
std::vector<const formats::TensorInfo*> tensors_of(const MatrixSource& source);

/// A tensor that quantised files carry and that no decoded weight depends on: NAME.input_scale, NAME.weight_shape, ...
bool beside_quantised(const std::string& name);

/// Reads all of a quantised matrix: its numbers must be finite, its groups there, and the shape that the file may keep
/// beside it the matrix's own. kInvalidModel names the tensor and the place.
Status check_matrix(const formats::TensorCatalog& catalog, const MatrixSource& source);

}  // namespace colibri::store
