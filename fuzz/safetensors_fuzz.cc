// A safetensors header, and an index. Input: u32 size of the data that follow the header, then the JSON.
#include <cstring>

#include "formats/safetensors.h"
#include "formats/safetensors_index.h"
#include "fuzz.h"
#include "ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t data_bytes = 0;
  if (size < sizeof data_bytes) return 0;
  std::memcpy(&data_bytes, data, sizeof data_bytes);
  const std::string_view json = colibri::fuzz::text_of(data + sizeof data_bytes, size - sizeof data_bytes);
  const int64_t data_offset = 8 + static_cast<int64_t>(json.size());
  const int64_t file_bytes = data_offset + data_bytes;
  const auto tensors = colibri::formats::parse_safetensors_header(json, data_offset, file_bytes, 0);
  if (tensors.ok()) colibri::fuzz::check_tensors(*tensors, file_bytes);

  const auto index = colibri::formats::parse_safetensors_index(json);
  if (!index.ok()) return 0;
  for (const std::string& shard : index->shards)
    COLIBRI_CHECK(!shard.empty() && shard != ".." && shard.find('/') == std::string::npos);
  for (const auto& [name, shard] : index->tensors)
    COLIBRI_CHECK(shard >= 0 && static_cast<size_t>(shard) < index->shards.size());
  return 0;
}
