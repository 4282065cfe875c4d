// ByteSource: where the bytes of experts come from while a model runs. A real seam: the model's files in a program, a
// slow or broken disk in a test.
//
// Thread-safety: every function may be called by several reader threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/catalog.h"
#include "platform/raw_file.h"

namespace colibri::store {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Offset, size and memory of every read are multiples of this, a power of two.
  virtual int64_t alignment() const = 0;
  /// RawFile::read of file number `file` of the catalog.
  virtual platform::ReadOutcome read(int file, int64_t offset, std::span<std::byte> out, int64_t needed) = 0;
  /// The file is no longer what it was when the model was opened.
  virtual bool changed(int file) = 0;
  virtual const std::string& path(int file) const = 0;
};

/// The catalog's files. Errors as RawFile::reopen gives them.
Result<std::unique_ptr<ByteSource>> open_byte_source(const formats::TensorCatalog& catalog, platform::Access access);

}  // namespace colibri::store
