// What must hold of every list of tensors that a parser accepted: the promise that later reads rely on.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "formats/catalog.h"

namespace colibri::fuzz {

inline void check_tensors(std::vector<formats::TensorInfo> tensors, int64_t file_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  int64_t end = 0;
  for (const formats::TensorInfo& tensor : tensors) {
    const DTypeInfo& type = info(tensor.dtype);
    COLIBRI_CHECK(tensor.offset >= 0 && tensor.bytes >= 0 && tensor.bytes <= file_bytes - tensor.offset);
    COLIBRI_CHECK(tensor.bytes == tensor.shape.elements() / type.block_elements * type.block_bytes);
    COLIBRI_CHECK(tensor.bytes == 0 || tensor.offset >= end);
    if (tensor.bytes > 0) end = tensor.offset + tensor.bytes;
  }
}

}  // namespace colibri::fuzz
