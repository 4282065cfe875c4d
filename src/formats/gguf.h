// GGUF v2 and v3, little endian, split files too. Every byte is hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/catalog.h"

namespace colibri::formats {

struct GgufHeader {
  uint32_t version = 0;
  Json metadata;                    ///< object; arrays as arrays; nesting bounded
  std::vector<TensorInfo> tensors;  ///< offsets absolute; ranges checked against file_bytes
};

/// Parses a header from the first bytes of a file. `bytes` may be shorter than the file (the caller then retries with
/// more when `needs_more` is set), never longer. Pure; this is what the fuzzer calls.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes, int64_t file_bytes, int file, bool* needs_more);
Result<TensorCatalog> open_gguf(const std::string& path);

}  // namespace colibri::formats
