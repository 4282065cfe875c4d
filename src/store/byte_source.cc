#include "store/byte_source.h"

#include <utility>

namespace colibri::store {
namespace {

class FileSource final : public ByteSource {
 public:
  FileSource(std::vector<platform::RawFile> files, std::vector<std::string> paths, int64_t alignment)
      : files_(std::move(files)), paths_(std::move(paths)), alignment_(alignment) {}

  int64_t alignment() const override { return alignment_; }
  platform::ReadOutcome read(int file, int64_t offset, std::span<std::byte> out, int64_t needed) override {
    return files_[static_cast<size_t>(file)].read(offset, out, needed);
  }
  bool changed(int file) override { return files_[static_cast<size_t>(file)].changed(); }
  const std::string& path(int file) const override { return paths_[static_cast<size_t>(file)]; }

 private:
  std::vector<platform::RawFile> files_;
  std::vector<std::string> paths_;
  int64_t alignment_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_byte_source(const formats::TensorCatalog& catalog, platform::Access access) {
  std::vector<platform::RawFile> files;
  std::vector<std::string> paths;
  for (const platform::File& file : catalog.files()) {
    COLIBRI_ASSIGN(platform::RawFile raw, platform::RawFile::reopen(file, access));
    files.push_back(std::move(raw));
    paths.push_back(file.path());
  }
  const int64_t alignment = access == platform::Access::kDirect ? platform::RawFile::kAlignment : 1;
  return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(std::move(files), std::move(paths), alignment));
}

}  // namespace colibri::store
