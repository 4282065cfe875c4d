// TensorCatalog: what a model's files hold, whatever their format.
//
// open_catalog() reads headers only (never weights), checks every number in them against the files' sizes, and gives
// each tensor's name, type, shape and place. After it every range can be read without further checks. Ownership: the
// catalog owns the open files. Thread-safety: const functions may be called from several threads.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "platform/file.h"
#include "tensor/tensor.h"

namespace colibri::formats {

enum class Format { kSafetensors, kGguf };

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  int file = 0;        ///< index into files()
  int64_t offset = 0;  ///< absolute, in bytes
  int64_t bytes = 0;
};

class TensorCatalog {
 public:
  Format format() const { return format_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<platform::File>& files() const { return files_; }
  /// nullptr when there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// GGUF metadata as an object {"general.architecture": ...}; null for safetensors.
  const Json& metadata() const { return metadata_; }
  /// Frees the metadata (a vocabulary may be large); it is null afterwards.
  void drop_metadata() { metadata_ = Json(); }
  /// Reads bytes [first, first + out.size()) of a tensor.
  Status read(const TensorInfo& tensor, int64_t first, std::span<std::byte> out) const;

  /// For the parsers: takes over the parts. kInvalidModel on duplicate tensor names.
  static Result<TensorCatalog> build(Format format, std::vector<platform::File> files, std::vector<TensorInfo> tensors,
                                     Json metadata);

 private:
  Format format_ = Format::kSafetensors;
  std::vector<platform::File> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> index_;
  Json metadata_;
};

/// Opens a model: a folder with model.safetensors or model.safetensors.index.json and its shards (or exactly one *.gguf
/// / one split set), a .gguf file (any shard of a split set names the set), or a .safetensors file. Errors
/// (kInvalidModel) name the file: missing, unreadable, truncated (with expected and found bytes), missing or extra
/// shards, ranges that overlap or leave the file, shapes that do not fit their bytes, duplicate names.
Result<TensorCatalog> open_catalog(const std::string& path);

}  // namespace colibri::formats
