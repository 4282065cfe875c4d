#include "platform/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "platform/file.h"

namespace colibri::platform {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

Result<std::vector<FolderFile>> list_files(const std::string& folder) {
  COLIBRI_ASSIGN(const std::vector<std::string> names, list_directory(folder));
  std::vector<FolderFile> files;
  for (const std::string& name : names) {
    struct stat status;
    if (::lstat(join(folder, name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    files.push_back({name, status.st_size, status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec});
  }
  return files;
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return Error{ErrorCode::kIo, path + ": cannot remove: " + reason(errno)};
}

void set_modified(const std::string& path, int64_t modified_ns) {
  const timespec time{modified_ns / kSecond, modified_ns % kSecond};
  const timespec both[] = {time, time};
  ::utimensat(AT_FDCWD, path.c_str(), both, AT_SYMLINK_NOFOLLOW);
}

// Whoever writes it holds a lock on it, in whatever container that is; the system takes the lock from the dead.
bool remove_abandoned(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT;
  const bool abandoned = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::unlink(path.c_str()) == 0;
  ::close(fd);
  return abandoned;
}

}  // namespace colibri::platform
