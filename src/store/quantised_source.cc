#include "store/quantised_source.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "formats/layout.h"
#include "store/module_parts.h"

namespace colibri::store {

using formats::QuantScheme;
using formats::quoted;
using formats::Storage;
using formats::TensorCatalog;
using formats::TensorInfo;

namespace {

// How the type and name of the tensor say that it is stored; nothing: as it is.
std::optional<Storage> storage_of(const TensorInfo& own, const std::vector<QuantScheme>& schemes) {
  const auto has = [&](Storage storage) {
    return std::any_of(schemes.begin(), schemes.end(), [=](const QuantScheme& s) { return s.storage == storage; });
  };
  if (own.name.ends_with(".qweight")) return has(Storage::kAwq) ? Storage::kAwq : Storage::kGptq;
  if (own.name.ends_with(".weight_packed")) return own.dtype == DType::kI32 ? Storage::kPackedInts : Storage::kFp4;
  if (own.name.ends_with("_blocks")) return Storage::kFp4;
  if (own.dtype == DType::kF8E4M3) return Storage::kFp8;
  if (own.dtype == DType::kI8) return has(Storage::kInt8) ? Storage::kInt8 : Storage::kFp4;
  if (own.dtype == DType::kU8) return Storage::kFp4;
  return std::nullopt;
}

// " F32, F16, ...": every type that can be read without scales.
std::string types_read() {
  std::string types;
  for (int i = 0; i < static_cast<int>(DType::kCount); ++i) {
    const DTypeInfo& type = info(static_cast<DType>(i));
    if (type.readable) types += (types.empty() ? " " : ", ") + std::string(type.name);
  }
  return types;
}

Result<MatrixSource> as_it_is(const TensorCatalog& catalog, const TensorInfo& tensor, const Shape& shape) {
  if (!(tensor.shape == shape))
    return tensor_problem(ErrorCode::kInvalidModel, catalog, tensor,
                          "has shape " + tensor.shape.to_string() + ", the config asks for " + shape.to_string());
  if (!info(tensor.dtype).readable)
    return tensor_problem(
        ErrorCode::kUnsupported, catalog, tensor,
        "is " + std::string(info(tensor.dtype).name) + ", which this version does not read; it reads" + types_read());
  const int64_t k = shape[shape.size() - 1];
  MatrixSource source{&tensor, 0, k == 0 ? 0 : shape.elements() / k, k, Encoding::kF32, 0};
  source.encoding = best_encoding(source);
  return source;
}

}  // namespace

const TensorInfo* find_module(const TensorCatalog& catalog, const std::string& name) {
  for (const char* suffix : {".weight", ".qweight", ".weight_packed", "_blocks", ""})
    if (const TensorInfo* tensor = catalog.find(name + suffix)) return tensor;
  return nullptr;
}

Result<MatrixSource> find_matrix(const TensorCatalog& catalog, const formats::Quantisation& quantisation,
                                 const std::string& name, const Shape& shape) {
  const TensorInfo* own = find_module(catalog, name);
  if (own == nullptr)
    return Error{ErrorCode::kInvalidModel, catalog.files().front().path() + ": tensor " + name +
                                               ".weight is missing (" + std::to_string(catalog.tensors().size()) +
                                               " tensors in " + std::to_string(catalog.files().size()) +
                                               " files); is a shard missing, or the config of another model?"};
  const std::optional<Storage> storage = storage_of(*own, quantisation.schemes);
  if (!storage) return as_it_is(catalog, *own, shape);
  std::optional<Error> error;
  for (const QuantScheme& scheme : quantisation.schemes) {
    if (scheme.storage != *storage) continue;
    Result<MatrixSource> source = module_source(catalog, scheme, name, *own, shape);
    if (source.ok()) return source;
    if (!error) error = std::move(source).error();
  }
  if (error) return *error;
  return tensor_problem(ErrorCode::kUnsupported, catalog, *own,
                        "is " + described(*own) + ", but " +
                            (quantisation.schemes.empty() ? "config.json has no quantization_config"
                                                          : "the quantization_config (" + quantisation.describe() +
                                                                ") says nothing of such tensors"));
}

std::vector<const TensorInfo*> tensors_of(const MatrixSource& source) {
  std::vector<const TensorInfo*> tensors = {source.tensor};
  const Codes& codes = source.codes;
  for (const Part* part : {&codes.scales, &codes.zeros, &codes.group_index, &codes.global})
    if (part->tensor != nullptr) tensors.push_back(part->tensor);
  return tensors;
}

bool beside_quantised(const std::string& name) {
  constexpr std::array<std::string_view, 11> kSuffixes = {
      ".g_idx",   ".weight_shape", ".weight_g_idx", ".input_scale",      ".input_zero_point", ".input_global_scale",
      ".k_scale", ".v_scale",      ".q_scale",      ".activation_scale", ".output_scale"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(), [&](std::string_view s) { return name.ends_with(s); });
}

}  // namespace colibri::store
