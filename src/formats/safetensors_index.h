// Sharded safetensors: an index.json whose weight_map says which file of the same folder holds which tensor.
//
// Every disagreement between index and files is an error that lists names: missing, extra, copied or swapped shards,
// and shards of another model, must not load.
#pragma once

#include <string>
#include <string_view>

#include "formats/catalog.h"

namespace colibri::formats {

/// Tensor -> shard, both as the index gives them; the shards are plain file names. For the fuzzer too.
struct SafetensorsIndex {
  std::vector<std::string> shards;                   ///< sorted, each once
  std::vector<std::pair<std::string, int>> tensors;  ///< name, index into shards
};
Result<SafetensorsIndex> parse_safetensors_index(std::string_view json);

Result<TensorCatalog> open_safetensors_index(const std::string& path);

}  // namespace colibri::formats
