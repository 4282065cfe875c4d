#include "platform/raw_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "platform/posix/read_fully.h"

namespace colibri::platform {
namespace {

int64_t modified_ns(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool same_file(int a, int b) {
  struct stat first, second;
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// Some file systems accept the flag and refuse the reads.
bool can_read(const RawFile& file) {
  alignas(RawFile::kAlignment) std::byte block[RawFile::kAlignment];
  return file.read(0, block, 1).error == 0;
}

}  // namespace

Result<RawFile> RawFile::reopen(const File& file, Access access) {
  const int flags = O_RDONLY | O_CLOEXEC | (access == Access::kDirect ? O_DIRECT : 0);
  const int fd = ::open(file.path().c_str(), flags);
  if (fd < 0 && access == Access::kDirect && errno == EINVAL)
    return Error{ErrorCode::kUnsupported, file.path() + ": this file system has no direct reads"};
  if (fd < 0)
    return Error{ErrorCode::kInvalidModel,
                 file.path() + ": cannot open again: " + std::generic_category().message(errno)};
  RawFile raw(fd, access);
  if (!same_file(fd, file.descriptor()) || !raw.remember_state())
    return Error{ErrorCode::kInvalidModel, file.path() + ": was replaced while it was being opened; start again"};
  if (access == Access::kDirect && raw.size_bytes_ > 0 && !can_read(raw))
    return Error{ErrorCode::kUnsupported, file.path() + ": this file system refuses direct reads"};
  return raw;
}

RawFile::RawFile(RawFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      access_(other.access_),
      size_bytes_(other.size_bytes_),
      modified_ns_(other.modified_ns_) {}

RawFile::~RawFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool RawFile::remember_state() {
  struct stat status;
  if (::fstat(fd_, &status) != 0) return false;
  size_bytes_ = status.st_size;
  modified_ns_ = modified_ns(status);
  return true;
}

bool RawFile::changed() const {
  struct stat status;
  return ::fstat(fd_, &status) != 0 || status.st_size != size_bytes_ || modified_ns(status) != modified_ns_;
}

ReadOutcome RawFile::read(int64_t offset, std::span<std::byte> out, int64_t needed) const {
  // A direct read that comes back short in the middle of a block is taken up again at the block's beginning.
  const int64_t block = access_ == Access::kDirect ? kAlignment : 1;
  const ReadOutcome outcome = read_fully(::pread, fd_, offset, out, block, needed);
  if (access_ == Access::kBufferedDropped)
    ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(out.size()), POSIX_FADV_DONTNEED);
  return outcome;
}

}  // namespace colibri::platform
