#include "formats/layout.h"

#include <algorithm>

namespace colibri::formats {
namespace {

std::string range_text(const TensorInfo& tensor) {
  return "tensor " + quoted(tensor.name) + " (bytes " + std::to_string(tensor.offset) + " to " +
         std::to_string(tensor.offset + tensor.bytes) + ")";
}

// Tensors that hold bytes, in the order of the file.
std::vector<const TensorInfo*> in_file_order(const std::vector<TensorInfo>& tensors) {
  std::vector<const TensorInfo*> order;
  order.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors)
    if (tensor.bytes > 0) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
  return order;
}

Status check_end(const std::vector<TensorInfo>& tensors, int64_t file_bytes) {
  const TensorInfo* last = nullptr;
  for (const TensorInfo& tensor : tensors)
    if (last == nullptr || tensor.offset + tensor.bytes > last->offset + last->bytes) last = &tensor;
  if (last == nullptr || last->offset + last->bytes <= file_bytes) return {};
  return invalid("truncated: " + std::to_string(last->offset + last->bytes) + " bytes expected, " +
                 std::to_string(file_bytes) + " found; " + range_text(*last) +
                 " leaves the file: download or copy it again");
}

Error hole(int64_t first, int64_t end, const std::string& before) {
  return invalid(std::to_string(end - first) + " bytes at " + std::to_string(first) + " belong to no tensor, before " +
                 before + ": the header does not belong to these data");
}

}  // namespace

Error invalid(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

std::string quoted(std::string_view name) {
  constexpr size_t kLongest = 120;
  if (name.size() <= kLongest) return Json(name).dump();
  return Json(std::string(name.substr(0, kLongest)) + "...").dump();
}

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i > 0 ? ", " : "") + quoted(names[i]);
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

Result<Extent> checked_extent(DType dtype, std::span<const int64_t> dims, bool rows_of_blocks) {
  if (dims.size() > Shape::kMaxDims)
    return invalid(std::to_string(dims.size()) + " dimensions, at most " + std::to_string(Shape::kMaxDims));
  Extent extent;
  int64_t elements = 1;
  bool overflow = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return invalid("negative dimension " + std::to_string(dim));
    overflow |= __builtin_mul_overflow(elements, dim, &elements);
    extent.shape.push_back(dim);
  }
  const DTypeInfo& type = info(dtype);
  const int64_t whole = rows_of_blocks ? (dims.empty() ? 1 : dims.back()) : elements;
  if (!overflow && whole % type.block_elements != 0) {
    return invalid("shape " + extent.shape.to_string() + " of " + std::string(type.name) + " does not fill blocks of " +
                   std::to_string(type.block_elements) + " elements");
  }
  overflow |= __builtin_mul_overflow(elements / type.block_elements, type.block_bytes, &extent.bytes);
  if (overflow) return invalid("shape " + extent.shape.to_string() + " has more bytes than 63 bits can count");
  return extent;
}

Status check_ranges(const std::vector<TensorInfo>& tensors, int64_t data_offset, int64_t file_bytes, Gaps gaps) {
  COLIBRI_TRY(check_end(tensors, file_bytes));
  int64_t end = data_offset;
  const TensorInfo* before = nullptr;
  for (const TensorInfo* tensor : in_file_order(tensors)) {
    if (tensor->offset < end) {
      return invalid(range_text(*tensor) + " overlaps " + (before ? range_text(*before) : std::string("the header")));
    }
    if (gaps == Gaps::kRefused && tensor->offset > end) return hole(end, tensor->offset, range_text(*tensor));
    end = tensor->offset + tensor->bytes;
    before = tensor;
  }
  if (gaps == Gaps::kRefused && file_bytes > end) return hole(end, file_bytes, "the end of the file");
  return {};
}

}  // namespace colibri::formats
