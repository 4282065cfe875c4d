#include "platform/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "platform/posix/read_fully.h"

namespace colibri::platform {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

Error open_error(const std::string& path, int error) {
  std::string message = path + ": cannot open: " + reason(error);
  if (error == EMFILE || error == ENFILE) message += "; raise the limit on open files (ulimit -n)";
  return {ErrorCode::kInvalidModel, std::move(message)};
}

ErrorCode code_of_write(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? ErrorCode::kDoesNotFit : ErrorCode::kIo;
}

Error write_error(const std::string& path, int64_t written, int error) {
  return {code_of_write(error), path + ": cannot write after " + std::to_string(written) + " bytes: " + reason(error)};
}

bool is_regular(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// The file that a path means after its links, or the path itself when there is no such file yet.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), std::free);
  return real ? std::string(real.get()) : path;
}

// Opens a new file beside `target` and says its name. Nobody else has it: writers of other processes, of other process
// namespaces (where the same process id may be in use) and of other threads get names of their own. The lock says that
// the writer lives: see remove_abandoned() in folder.h.
int open_temporary(const std::string& target, std::string& name) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    name = target + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(now.tv_sec) + "-" +
           std::to_string(now.tv_nsec);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) ::flock(fd, LOCK_EX | LOCK_NB);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// The rename is durable once the folder is; file systems that cannot sync a folder are left alone.
void sync_folder(const std::string& path) {
  const int fd = ::open(parent(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

Result<File> File::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must fail below, not wait for a writer. It has no effect on regular files.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return open_error(path, errno);
  File file(path, fd, 0);
  struct stat status;
  if (::fstat(fd, &status) != 0) return open_error(path, errno);
  if (S_ISDIR(status.st_mode)) return Error{ErrorCode::kInvalidModel, path + ": is a folder, a file is needed"};
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kInvalidModel, path + ": is not a regular file"};
  file.size_bytes_ = status.st_size;
  file.modified_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(other.size_bytes_),
      modified_ns_(other.modified_ns_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Status File::read_at(int64_t offset, std::span<std::byte> out) const {
  COLIBRI_CHECK(offset >= 0);
  const ReadOutcome outcome = read_fully(::pread, fd_, offset, out);
  if (outcome.bytes == static_cast<int64_t>(out.size())) return {};
  std::string message =
      path_ + ": cannot read " + std::to_string(out.size()) + " bytes at offset " + std::to_string(offset) + ": ";
  if (outcome.error != 0) return Error{ErrorCode::kIo, message + reason(outcome.error)};
  return Error{ErrorCode::kIo, message + "the file ends at " + std::to_string(offset + outcome.bytes) +
                                   ", it was truncated (it had " + std::to_string(size_bytes_) + " when opened)"};
}

void File::expect_read(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}
void File::expect_no_more_reads(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}
void File::expect_sequential_reads() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL); }

Result<FileWriter> FileWriter::create(const std::string& path) {
  const bool special = exists(path) && !is_regular(path);
  std::string target = special ? path : resolved(path);
  std::string temporary;
  const int fd = special ? ::open(target.c_str(), O_WRONLY | O_CLOEXEC) : open_temporary(target, temporary);
  if (fd < 0) {
    return Error{ErrorCode::kIo, path + ": cannot create " + (special ? target : temporary) + ": " + reason(errno)};
  }
  return FileWriter(std::move(target), std::move(temporary), fd);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::exchange(other.fd_, -1)),
      written_bytes_(other.written_bytes_) {}

FileWriter& FileWriter::operator=(FileWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  std::swap(written_bytes_, other.written_bytes_);
  return *this;
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status FileWriter::append(std::span<const std::byte> bytes) {
  COLIBRI_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return write_error(path_, written_bytes_, n < 0 ? errno : EIO);
    written_bytes_ += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status FileWriter::append(std::string_view text) { return append(std::as_bytes(std::span(text.data(), text.size()))); }

Status FileWriter::commit() {
  COLIBRI_CHECK(fd_ >= 0);
  const bool direct = temporary_.empty();
  if (!direct && ::fsync(fd_) != 0) return write_error(path_, written_bytes_, errno);
  if (::close(std::exchange(fd_, -1)) != 0) return write_error(path_, written_bytes_, errno);
  if (direct) return {};
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return write_error(path_, written_bytes_, errno);
  temporary_.clear();
  sync_folder(path_);
  return {};
}

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  COLIBRI_ASSIGN(File file, File::open(path));
  if (file.size_bytes() > max_bytes) {
    return Error{ErrorCode::kInvalidModel, path + ": is " + std::to_string(file.size_bytes()) + " bytes, at most " +
                                               std::to_string(max_bytes) + " are accepted"};
  }
  std::string text(static_cast<size_t>(file.size_bytes()), '\0');
  COLIBRI_TRY(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return Error{ErrorCode::kInvalidModel, path + ": cannot list: " + reason(errno)};
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

Status create_folders(const std::string& path) {
  if (is_directory(path)) return {};
  if (const std::string above = parent(path); above != path) COLIBRI_TRY(create_folders(above));
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  const int error = errno;
  if (error == EEXIST && is_directory(path)) return {};  // another process was faster
  return Error{code_of_write(error), path + ": cannot make the folder: " + reason(error)};
}

bool is_directory(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool exists(const std::string& path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

std::string join(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  std::string path(directory);
  if (path.back() != '/') path += '/';
  return path.append(name);
}

std::string parent(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace colibri::platform
