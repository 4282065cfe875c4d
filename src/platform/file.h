// Files: positioned reads, whole-file reads, checked writes. Thread-safety: read_at may be called from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace colibri::platform {

class File {
 public:
  /// Opens for reading. kInvalidModel when missing, unreadable or not a regular file; the message says which.
  static Result<File> open(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }
  /// Fills `out` from `offset`; loops over short reads and EINTR. kIo names file, offset and reason; an end of file inside
  /// the range says that the file was truncated.
  Status read_at(int64_t offset, std::span<std::byte> out) const;

 private:
  File(std::string path, int fd, int64_t size_bytes) : path_(std::move(path)), fd_(fd), size_bytes_(size_bytes) {}
  std::string path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
};

/// The whole file as a string; kInvalidModel when it is larger than `max_bytes`.
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

bool is_directory(const std::string& path);
bool exists(const std::string& path);
/// `directory`/`name`.
std::string join(std::string_view directory, std::string_view name);
/// The folder a path is in ("." when it has none).
std::string parent(const std::string& path);

}  // namespace colibri::platform
