#include "formats/safetensors.h"

#include <cstring>
#include <optional>

#include "formats/foreign.h"
#include "formats/layout.h"
#include "formats/safetensors_index.h"

namespace colibri::formats {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation

Result<std::vector<int64_t>> integers(const Json& entry, std::string_view key) {
  const Json* value = entry.find(key);
  if (value == nullptr || !value->is_array()) return invalid("has no list " + quoted(key));
  std::vector<int64_t> numbers;
  for (const Json& item : value->as_array()) {
    if (!item.is_int()) return invalid(quoted(key) + " holds " + quoted(item.dump()) + ", integers are needed");
    numbers.push_back(item.as_int());
  }
  return numbers;
}

Result<DType> dtype_of(const Json& entry) {
  const Json* value = entry.find("dtype");
  if (value == nullptr || !value->is_string()) return invalid("has no \"dtype\"");
  const auto dtype = dtype_from_safetensors(value->as_string());
  if (!dtype) return invalid("dtype " + quoted(value->as_string()) + " is unknown");
  return *dtype;
}

// {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
Result<TensorInfo> parse_entry(const Json& entry, int64_t data_offset) {
  if (!entry.is_object()) return invalid("is described by " + quoted(entry.dump()) + ", an object is needed");
  TensorInfo tensor;
  COLIBRI_ASSIGN(tensor.dtype, dtype_of(entry));
  COLIBRI_ASSIGN(const std::vector<int64_t> dims, integers(entry, "shape"));
  COLIBRI_ASSIGN(const std::vector<int64_t> range, integers(entry, "data_offsets"));
  COLIBRI_ASSIGN(const Extent extent, checked_extent(tensor.dtype, dims, /*rows_of_blocks=*/false));
  if (range.size() != 2 || range[0] < 0 || range[1] < range[0] || range[1] > INT64_MAX - data_offset)
    return invalid("data_offsets " + entry.find("data_offsets")->dump() + " are no range");
  tensor.shape = extent.shape;
  tensor.offset = data_offset + range[0];
  tensor.bytes = range[1] - range[0];
  if (tensor.bytes != extent.bytes) {
    return invalid("shape " + extent.shape.to_string() + " of " + std::string(info(tensor.dtype).name) + " needs " +
                   std::to_string(extent.bytes) + " bytes, data_offsets span " + std::to_string(tensor.bytes));
  }
  return tensor;
}

Status check_metadata(const Json& metadata) {
  bool fine = metadata.is_object();
  for (size_t i = 0; fine && i < metadata.as_object().size(); ++i) fine = metadata.as_object()[i].second.is_string();
  if (fine) return {};
  return invalid("\"__metadata__\" must be an object of strings");
}

// The length of the JSON header, after the checks that tell a safetensors file from anything else.
Result<int64_t> header_length(std::string_view head, int64_t file_bytes) {
  uint64_t length = 0;
  std::memcpy(&length, head.data(), std::min(sizeof length, head.size()));
  const bool plausible = head.size() > kLengthBytes && head[kLengthBytes] == '{' && length <= kMaxHeaderBytes;
  if (!plausible) {
    if (const std::string what = describe_foreign(head); !what.empty()) return invalid(what);
    return invalid("is no safetensors file: its first 8 bytes give a header of " + std::to_string(length) +
                   " bytes (at most " + std::to_string(kMaxHeaderBytes) + "), the file has " +
                   std::to_string(file_bytes));
  }
  const int64_t room = file_bytes - kLengthBytes;
  if (static_cast<int64_t>(length) <= room) return static_cast<int64_t>(length);
  return invalid("truncated: a header of " + std::to_string(length) + " bytes expected, " + std::to_string(room) +
                 " found: download or copy it again");
}

Result<TensorCatalog> open_file(const std::string& path) {
  std::vector<platform::File> files;
  COLIBRI_ASSIGN(platform::File file, platform::File::open(path));
  COLIBRI_ASSIGN(std::vector<TensorInfo> tensors, read_safetensors_header(file, 0));
  files.push_back(std::move(file));
  return TensorCatalog::build(Format::kSafetensors, std::move(files), std::move(tensors), {});
}

}  // namespace

Result<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header, int64_t data_offset,
                                                         int64_t file_bytes, int file) {
  COLIBRI_ASSIGN(const Json json, parse_json(header));
  if (!json.is_object()) return invalid("the header is no JSON object");
  std::vector<TensorInfo> tensors;
  tensors.reserve(json.as_object().size());
  for (const auto& [name, entry] : json.as_object()) {
    if (name == "__metadata__") {
      COLIBRI_TRY(check_metadata(entry));
      continue;
    }
    Result<TensorInfo> tensor = parse_entry(entry, data_offset);
    if (!tensor.ok()) return std::move(tensor).with_context("tensor " + quoted(name)).error();
    tensor->name = name;
    tensor->file = file;
    tensors.push_back(*std::move(tensor));
  }
  COLIBRI_TRY(check_ranges(tensors, data_offset, file_bytes, Gaps::kRefused));
  return tensors;
}

Result<std::vector<TensorInfo>> read_safetensors_header(const platform::File& file, int index) {
  COLIBRI_ASSIGN(const std::string head, head_of(file));
  COLIBRI_ASSIGN(const int64_t length, header_length(head, file.size_bytes()).with_context(file.path()));
  std::string header(static_cast<size_t>(length), '\0');
  COLIBRI_TRY(file.read_at(kLengthBytes, std::as_writable_bytes(std::span(header))));
  return parse_safetensors_header(header, kLengthBytes + length, file.size_bytes(), index).with_context(file.path());
}

Result<TensorCatalog> open_safetensors(const std::string& path) {
  if (path.ends_with(".json")) return open_safetensors_index(path);
  if (!platform::is_directory(path)) return open_file(path);
  const std::string single = platform::join(path, "model.safetensors");
  const std::string index = platform::join(path, "model.safetensors.index.json");
  if (!platform::exists(index)) return open_file(single);
  COLIBRI_ASSIGN(TensorCatalog catalog, open_safetensors_index(index));
  if (platform::exists(single) && (catalog.files().size() != 1 || catalog.files()[0].path() != single)) {
    return invalid(path + ": holds both model.safetensors and an index of " + std::to_string(catalog.files().size()) +
                   " other files: remove one, or give its path");
  }
  return catalog;
}

}  // namespace colibri::formats
