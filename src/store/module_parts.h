// Module parts: the tensors of one quantised module under one scheme, checked against each other.
//
// Private to src/store; find_matrix calls it for each scheme that may fit. Pure; sources point into the catalog.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/catalog.h"
#include "formats/quantisation.h"
#include "store/matrix_source.h"

namespace colibri::store {

/// The source of module `name`, whose own tensor is `own`, with a weight of `shape`. kInvalidModel names the tensor
/// that is missing or is not as the scheme says.
Result<MatrixSource> module_source(const formats::TensorCatalog& catalog, const formats::QuantScheme& scheme,
                                   const std::string& name, const formats::TensorInfo& own, const Shape& shape);

/// An error that names the file and the tensor.
Error tensor_problem(ErrorCode code, const formats::TensorCatalog& catalog, const formats::TensorInfo& tensor,
                     const std::string& what);
/// "I32 [12, 24]"
std::string described(const formats::TensorInfo& tensor);

}  // namespace colibri::store
