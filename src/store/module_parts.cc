#include "store/module_parts.h"

#include <algorithm>
#include <initializer_list>

#include "formats/layout.h"

namespace colibri::store {

using formats::QuantScheme;
using formats::quoted;
using formats::Storage;
using formats::TensorCatalog;
using formats::TensorInfo;

namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// The parts of one module under one scheme.
class Module {
 public:
  Module(const TensorCatalog& catalog, const QuantScheme& scheme, const std::string& name, const TensorInfo& own,
         const Shape& shape)
      : catalog_(catalog), scheme_(scheme), name_(name), own_(own), k_(shape[shape.size() - 1]) {
    for (int i = 0; i + 1 < shape.size(); ++i) outer_.push_back(shape[i]);
    n_ = outer_.elements();
    source_ = {&own, 0, n_, k_, Encoding::kF32, 0};
    source_.codes.bits = static_cast<uint8_t>(scheme.bits);
    source_.codes.group = scheme.group_inputs > 0 ? scheme.group_inputs : k_;
    source_.codes.groups = divide_up(k_, source_.codes.group);
    source_.codes.act_order = scheme.act_order;
    source_.codes.zero_plus_one = scheme.zero_plus_one;
    source_.codes.divide_by_global = scheme.divide_by_global;
  }

  Result<MatrixSource> find() {
    if (n_ <= 0 || k_ <= 0) return bad(own_, "is empty");
    COLIBRI_TRY(find_parts());
    source_.codes.row_bytes = own_.bytes / divide_up(rows(), source_.codes.rows_each);
    source_.encoding = best_encoding(source_);
    return source_;
  }

 private:
  int64_t rows() const { return source_.transposed ? k_ : n_; }
  int64_t per_word() const { return 32 / scheme_.bits; }

  Status find_parts() {
    switch (scheme_.storage) {
      case Storage::kFp8:
        return fp8();
      case Storage::kFp4:
        return fp4();
      case Storage::kPackedInts:
        return packed_ints();
      case Storage::kInt8:
        return int8();
      case Storage::kGptq:
        return gptq();
      case Storage::kAwq:
        return awq();
    }
    return {};
  }

  Status fp8() {
    source_.codes.decoding = Decoding::kFp8;
    COLIBRI_TRY(expect(own_, {DType::kF8E4M3}, with_inputs(k_)));
    COLIBRI_ASSIGN(const TensorInfo* scale, side({".weight_scale_inv", ".weight_scale", ".scale", "_scale_inv"}));
    if (scheme_.group_inputs == 0) return free_scale(*scale);
    if (scheme_.group_outputs > 1 && outer_.size() > 1 && outer_[outer_.size() - 1] % scheme_.group_outputs != 0)
      return bad(own_, "is stacked from matrices of " + std::to_string(outer_[outer_.size() - 1]) +
                           " rows, which are no whole tiles");
    return scales(*scale, {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E8M0, DType::kU8});
  }

  Status fp4() {
    source_.codes.decoding = Decoding::kFp4;
    const int64_t group = source_.codes.group;
    if (k_ % group != 0 || group % 2 != 0)
      return bad(own_, "has " + std::to_string(k_) + " inputs, no multiple of a group of " + std::to_string(group));
    Shape dims = own_.name.ends_with("_blocks") ? with_inputs(k_ / 32) : with_inputs(k_ / 2);
    if (own_.name.ends_with("_blocks")) dims.push_back(16);
    COLIBRI_TRY(expect(own_, {DType::kU8, DType::kI8}, dims));
    COLIBRI_ASSIGN(const TensorInfo* scale, side({"_scales", ".weight_scale", ".scale"}));
    if (!scheme_.global_scale) return scales(*scale, {DType::kU8, DType::kF8E8M0});
    COLIBRI_TRY(scales(*scale, {DType::kF8E4M3}));
    COLIBRI_ASSIGN(const TensorInfo* global,
                   side({scheme_.divide_by_global ? ".weight_global_scale" : ".weight_scale_2"}));
    if (global->dtype != DType::kF32 || global->shape.elements() != 1)
      return bad(*global, "is " + described(*global) + ", one F32 is needed");
    source_.codes.global = {global, 0, global->bytes};
    return {};
  }

  Status packed_ints() {
    source_.codes.decoding = Decoding::kInt;
    COLIBRI_TRY(expect(own_, {DType::kI32}, with_inputs(divide_up(k_, per_word()))));
    COLIBRI_ASSIGN(const TensorInfo* scale, side({".weight_scale"}));
    COLIBRI_TRY(int_scales(*scale));
    if (scheme_.act_order) {
      COLIBRI_ASSIGN(const TensorInfo* index, side({".weight_g_idx"}));
      COLIBRI_TRY(expect(*index, {DType::kI32}, Shape{k_}));
      source_.codes.group_index = {index, 0, index->bytes};
    }
    if (scheme_.symmetric) return {};
    COLIBRI_ASSIGN(const TensorInfo* zero, side({".weight_zero_point"}));
    const int64_t words = divide_up(n_, per_word());
    if (outer_.size() > 1) return bad(own_, "is stacked, which has no decoder here with zero points");
    COLIBRI_TRY(expect(*zero, {DType::kI32}, Shape{words, source_.codes.groups}));
    source_.codes.zeros = {zero, per_word(), zero->bytes / words};
    return {};
  }

  Status int8() {
    source_.codes.decoding = Decoding::kInt;
    COLIBRI_TRY(expect(own_, {DType::kI8}, with_inputs(k_)));
    COLIBRI_ASSIGN(const TensorInfo* scale, side({".weight_scale"}));
    COLIBRI_TRY(int_scales(*scale));
    if (scheme_.symmetric) return {};
    COLIBRI_ASSIGN(const TensorInfo* zero, side({".weight_zero_point"}));
    if (zero->dtype != DType::kI8 || zero->shape.elements() != scale->shape.elements())
      return bad(*zero, "is " + described(*zero) + ", an I8 for each of " + described(*scale) + " is needed");
    source_.codes.zeros = source_.codes.scales;
    source_.codes.zeros.tensor = zero;
    source_.codes.zeros.row_bytes = source_.codes.groups;
    return {};
  }

  Status int_scales(const TensorInfo& scale) {
    if (scheme_.group_inputs == 0) return free_scale(scale);
    return scales(scale, {DType::kF32, DType::kF16, DType::kBF16});
  }

  // The file's rows are inputs.
  void turn() {
    source_.transposed = true;
    source_.file_width = n_;
  }

  Status gptq() {
    turn();
    source_.codes.decoding = Decoding::kGptq;
    source_.codes.rows_each = per_word();
    COLIBRI_TRY(whole_words(k_, "inputs"));
    COLIBRI_TRY(expect(own_, {DType::kI32}, Shape{k_ / per_word(), n_}));
    const TensorInfo* index = catalog_.find(name_ + ".g_idx");
    if (index == nullptr && scheme_.act_order) return missing(".g_idx");
    if (index != nullptr) {
      COLIBRI_TRY(expect(*index, {DType::kI32}, Shape{k_}));
      source_.codes.group_index = {index, 1, 4};
    }
    return column_groups();
  }

  Status awq() {
    turn();
    source_.codes.decoding = Decoding::kAwq;
    COLIBRI_TRY(expect(own_, {DType::kI32}, Shape{k_, n_ / per_word()}));
    return column_groups();
  }

  // scales [groups, out] and qzeros [groups, out * bits / 32].
  Status column_groups() {
    COLIBRI_TRY(whole_words(n_, "outputs"));
    if (outer_.size() > 1) return bad(own_, "is stacked, which has no decoder here");
    COLIBRI_ASSIGN(const TensorInfo* scale, side({".scales"}));
    COLIBRI_ASSIGN(const TensorInfo* zero, side({".qzeros"}));
    COLIBRI_TRY(expect(*scale, {DType::kF16, DType::kBF16, DType::kF32}, Shape{source_.codes.groups, n_}));
    COLIBRI_TRY(expect(*zero, {DType::kI32}, Shape{source_.codes.groups, n_ / per_word()}));
    const int64_t each = scheme_.act_order ? 0 : source_.codes.group;
    source_.codes.scales = {scale, each, scale->bytes / source_.codes.groups};
    source_.codes.zeros = {zero, each, zero->bytes / source_.codes.groups};
    return {};
  }

  Status whole_words(int64_t count, const char* what) const {
    if (count % per_word() == 0) return {};
    return bad(own_, "has " + std::to_string(count) + " " + what + ", no multiple of " + std::to_string(per_word()));
  }

  // One scale for everything, or one for each output.
  Status free_scale(const TensorInfo& scale) {
    const DTypeInfo& type = info(scale.dtype);
    const bool number = scale.dtype == DType::kF32 || scale.dtype == DType::kBF16 || scale.dtype == DType::kF16;
    const int64_t count = scale.shape.elements();
    if (!number || (count != 1 && count != n_))
      return bad(scale, "is " + described(scale) + ", a scale for all or for each of " + std::to_string(n_) +
                            " outputs is needed");
    source_.codes.scales = {&scale, count == 1 ? 0 : 1, type.block_bytes};
    return {};
  }

  // A scale for each tile or group: [..., outputs / of a tile, groups].
  Status scales(const TensorInfo& scale, std::initializer_list<DType> types) {
    Shape dims;
    for (int i = 0; i < outer_.size(); ++i)
      dims.push_back(i + 1 < outer_.size() ? outer_[i] : divide_up(outer_[i], scheme_.group_outputs));
    dims.push_back(source_.codes.groups);
    COLIBRI_TRY(expect(scale, types, dims));
    const int64_t rows = divide_up(n_, scheme_.group_outputs);
    source_.codes.scales = {&scale, scheme_.group_outputs, scale.bytes / rows};
    return {};
  }

  Shape with_inputs(int64_t inputs) const {
    Shape shape = outer_;
    shape.push_back(inputs);
    return shape;
  }

  Result<const TensorInfo*> side(std::initializer_list<const char*> suffixes) const {
    for (const char* suffix : suffixes)
      if (const TensorInfo* tensor = catalog_.find(name_ + suffix)) return tensor;
    return missing(*suffixes.begin());
  }

  Error missing(const char* suffix) const {
    return bad(own_, "needs " + quoted(name_ + suffix) +
                         ", which is missing; is a shard missing, or the config of "
                         "another model?");
  }

  Status expect(const TensorInfo& tensor, std::initializer_list<DType> types, const Shape& shape) const {
    if (std::find(types.begin(), types.end(), tensor.dtype) != types.end() && tensor.shape == shape) return {};
    return bad(tensor, "is " + described(tensor) + ", the quantization_config asks for " +
                           std::string(info(*types.begin()).name) + " " + shape.to_string());
  }

  Error bad(const TensorInfo& tensor, const std::string& what) const {
    return tensor_problem(ErrorCode::kInvalidModel, catalog_, tensor, what);
  }

  const TensorCatalog& catalog_;
  const QuantScheme& scheme_;
  const std::string& name_;
  const TensorInfo& own_;
  const int64_t k_;
  int64_t n_;
  Shape outer_;  // all dimensions but the last
  MatrixSource source_;
};

}  // namespace

Result<MatrixSource> module_source(const TensorCatalog& catalog, const QuantScheme& scheme, const std::string& name,
                                   const TensorInfo& own, const Shape& shape) {
  return Module(catalog, scheme, name, own, shape).find();
}

Error tensor_problem(ErrorCode code, const TensorCatalog& catalog, const TensorInfo& tensor, const std::string& what) {
  return {code,
          catalog.files()[static_cast<size_t>(tensor.file)].path() + ": tensor " + quoted(tensor.name) + " " + what};
}

std::string described(const TensorInfo& tensor) {
  return std::string(info(tensor.dtype).name) + " " + tensor.shape.to_string();
}

}  // namespace colibri::store
