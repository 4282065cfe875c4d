// safetensors: u64 header length, JSON header {name: {dtype, shape, data_offsets}}, data. The header is hostile input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/catalog.h"

namespace colibri::formats {

/// Parses a header (the JSON text only). `data_offset`: where the data begin in the file, `file_bytes`: the file's
/// size, `file`: value for TensorInfo::file. Pure; this is what the fuzzer calls.
Result<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header, int64_t data_offset,
                                                         int64_t file_bytes, int file);
/// Reads and parses the header of an open file. Errors name the file and say what it is when it is something else.
Result<std::vector<TensorInfo>> read_safetensors_header(const platform::File& file, int index);
Result<TensorCatalog> open_safetensors(const std::string& path);  ///< a file, a folder, or an index.json

}  // namespace colibri::formats
