// What every parser of a model file checks before its numbers are trusted: sizes without overflow, ranges inside the
// file and apart from each other, names fit to print.
//
// Thread-safety: pure functions. Errors are kInvalidModel without the file's name; the caller adds it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/catalog.h"

namespace colibri::formats {

Error invalid(std::string message);

/// A name out of a file, for messages: in quotes, control characters escaped, cut when long.
std::string quoted(std::string_view name);
/// "a", "b", "c" and 7 more.
std::string quoted_list(const std::vector<std::string>& names);

/// Shape and byte size of a tensor from dimensions that are not yet trusted: at most Shape::kMaxDims of them, none
/// negative, no overflow, whole blocks (in the last dimension, if `rows_of_blocks`: a GGUF row never shares a block).
struct Extent {
  Shape shape;
  int64_t bytes = 0;
};
Result<Extent> checked_extent(DType dtype, std::span<const int64_t> dims, bool rows_of_blocks);

enum class Gaps { kAllowed, kRefused };

/// Checks that the tensors of one file lie between data_offset and file_bytes and do not overlap; with Gaps::kRefused
/// also that they fill this range. REQUIRES: offset and bytes are not negative and their sum does not overflow.
Status check_ranges(const std::vector<TensorInfo>& tensors, int64_t data_offset, int64_t file_bytes, Gaps gaps);

}  // namespace colibri::formats
