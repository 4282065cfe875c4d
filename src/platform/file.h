// Files: positioned reads, whole-file reads, writes that are complete or absent.
//
// Errors name the path, the numbers and the system's reason; they never include a file's bytes.
// Thread-safety: File::read_at may be called from several threads; a FileWriter belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  int64_t modified_ns() const { return modified_ns_; }  ///< since 1970, when it was opened
  int descriptor() const { return fd_; }                ///< for platform/ only
  /// Fills `out` from `offset`; loops over short reads and EINTR. kIo names file, offset and reason; an end of file
  /// inside the range says that the file was truncated.
  Status read_at(int64_t offset, std::span<std::byte> out) const;
  /// Tells the system that the file will be read from front to back, so that it reads far ahead.
  void expect_sequential_reads() const;
  /// A hint: what the page cache holds of these bytes (0: to the end) is not wanted again.
  void expect_no_more_reads(int64_t offset, int64_t bytes) const;
  /// A hint: the system may begin to read these bytes now, without anybody waiting.
  void expect_read(int64_t offset, int64_t bytes) const;

 private:
  File(std::string path, int fd, int64_t size_bytes) : path_(std::move(path)), fd_(fd), size_bytes_(size_bytes) {}
  std::string path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
  int64_t modified_ns_ = 0;
};

/// Writes a file that appears under its name only when it is whole: bytes go to a temporary file beside it, commit()
/// syncs and renames. Without a commit the temporary file is removed and an older file of that name stays as it was. A
/// path that names no regular file (/dev/stdout, a pipe) is written directly; a link's target is replaced, not the
/// link.
class FileWriter {
 public:
  static Result<FileWriter> create(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  /// kDoesNotFit when the disk or quota is full, else kIo.
  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text);
  Status commit();

 private:
  FileWriter(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  std::string path_;
  std::string temporary_;  // empty after commit, and when the path is written directly
  int fd_ = -1;
  int64_t written_bytes_ = 0;
};

/// The whole file as a string; kInvalidModel when it is larger than `max_bytes`.
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes);

/// Names in a folder, sorted, without "." and "..". kInvalidModel when it cannot be listed.
Result<std::vector<std::string>> list_directory(const std::string& path);

/// Makes the folder and those above it that are missing, for this user alone. kDoesNotFit when the disk is full, else
/// kIo; the message names the folder that could not be made.
Status create_folders(const std::string& path);

bool is_directory(const std::string& path);
bool exists(const std::string& path);
/// `directory`/`name`.
std::string join(std::string_view directory, std::string_view name);
/// The folder a path is in ("." when it has none).
std::string parent(const std::string& path);

}  // namespace colibri::platform
