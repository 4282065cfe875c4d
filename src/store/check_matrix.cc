// Validation of quantised matrices: the only reader that looks at every number.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "formats/layout.h"
#include "store/file_rows.h"
#include "store/quantised_source.h"

namespace colibri::store {
namespace {

constexpr int64_t kRead = 1 << 20;

Error bad(const formats::TensorInfo& tensor, const std::string& what) {
  return {ErrorCode::kInvalidModel, "tensor " + formats::quoted(tensor.name) + what};
}

// NAME.weight_shape beside NAME.weight_packed: two I32 or I64.
Status check_shape(const formats::TensorCatalog& catalog, const MatrixSource& source) {
  constexpr std::string_view kPacked = "weight_packed";
  std::string name = source.tensor->name;
  if (!name.ends_with(kPacked)) return {};
  const formats::TensorInfo* tensor =
      catalog.find(name.replace(name.size() - kPacked.size(), kPacked.size(), "weight_shape"));
  if (tensor == nullptr) return {};
  const bool wide = tensor->dtype == DType::kI64;
  if ((!wide && tensor->dtype != DType::kI32) || !(tensor->shape == Shape{2}))
    return bad(*tensor, " is no pair of I32 or I64");
  int64_t numbers[2] = {};
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(numbers));
  COLIBRI_TRY(catalog.read(*tensor, 0, bytes.first(static_cast<size_t>(tensor->bytes))));
  if (!wide) {
    int32_t narrow[2];
    std::memcpy(narrow, numbers, sizeof narrow);
    std::copy(narrow, narrow + 2, numbers);
  }
  if (numbers[0] == source.n && numbers[1] == source.k) return {};
  return bad(*tensor, " holds [" + std::to_string(numbers[0]) + ", " + std::to_string(numbers[1]) +
                          "], but the config asks for " + Shape{source.n, source.k}.to_string());
}

}  // namespace

Status check_matrix(const formats::TensorCatalog& catalog, const MatrixSource& source) {
  if (source.n == 0 || source.codes.decoding == Decoding::kType) return {};
  if (source.first_row == 0 && source.block == 0) COLIBRI_TRY(check_shape(catalog, source));
  const int64_t read_bytes = std::max(kRead, least_read_bytes(source));
  const int64_t length = piece_length(source, read_bytes);
  std::vector<std::byte> memory(static_cast<size_t>(read_bytes + side_bytes(source)));
  std::vector<float> row(static_cast<size_t>(source.width()));
  for (int64_t first = 0; first < source.length(); first += length) {
    const int64_t count = std::min(length, source.length() - first);
    const Extents extents = extents_of(source, first, count);
    RawParts raw;
    COLIBRI_TRY(read_extents(catalog, extents, memory, raw));
    const FileRows rows(source, extents, raw);
    COLIBRI_TRY(check_groups(source, first, count, rows));
    for (int64_t i = first; i < first + count; ++i) {
      const int64_t file_row = source.transposed ? source.first_input + i : source.file_row(i);
      rows.decode(file_row, row.data());
      const auto found = std::find_if(row.begin(), row.end(), [](float v) { return !std::isfinite(v); });
      if (found == row.end()) continue;
      return bad(*source.tensor, " and its scales make a value that is not finite, in row " + std::to_string(file_row) +
                                     ", column " + std::to_string(found - row.begin()) +
                                     "; the file is damaged, fetch it again");
    }
  }
  return {};
}

}  // namespace colibri::store
