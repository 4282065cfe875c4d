#include "platform/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>

#include "platform/file.h"
#include "platform/memory.h"

namespace colibri::platform {
namespace {

constexpr int64_t kSequentialBlock = 4 << 20, kRandomBlock = 1 << 20;
constexpr int64_t kMostBytes = 256 << 20;  // of each kind
constexpr std::chrono::milliseconds kLongest(800);

// A descriptor of its own, since O_DIRECT belongs to the descriptor.
class DirectFile {
 public:
  explicit DirectFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)) {
    direct_ = fd_ >= 0;
    if (!direct_) fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (!direct_ && fd_ >= 0) ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);  // as little cache as can be
  }
  ~DirectFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  bool direct() const { return direct_; }
  ssize_t read(std::byte* data, int64_t bytes, int64_t offset) const {
    ssize_t n;
    do n = ::pread(fd_, data, static_cast<size_t>(bytes), static_cast<off_t>(offset));
    while (n < 0 && errno == EINTR);
    return n;
  }

 private:
  int fd_;
  bool direct_;
};

struct Measured {
  int64_t bytes = 0;
  double per_second = 0;
};

// Reads blocks at next_offset(i), i = 0, 1, ..., until enough bytes or time is spent.
template <typename NextOffset>
Result<Measured> read_blocks(const DirectFile& file, const File& named, std::byte* data, int64_t block,
                             NextOffset next_offset) {
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> spent{};
  Measured m;
  for (int64_t i = 0; m.bytes < std::min(kMostBytes, named.size_bytes()) && spent < kLongest; ++i) {
    const ssize_t n = file.read(data, block, next_offset(i));
    if (n <= 0)
      return Error{ErrorCode::kIo, named.path() + ": cannot read at offset " + std::to_string(next_offset(i)) + ": " +
                                       std::generic_category().message(n < 0 ? errno : EIO)};
    m.bytes += n;
    spent = std::chrono::steady_clock::now() - start;
  }
  m.per_second = static_cast<double>(m.bytes) / std::max(spent.count(), 1e-9);
  return m;
}

}  // namespace

Result<DiskSpeed> measure_disk(const std::string& path) {
  COLIBRI_ASSIGN(const File named, File::open(path));
  if (named.size_bytes() == 0) return Error{ErrorCode::kUsage, path + ": is empty, there is nothing to read"};
  const DirectFile file(path);
  COLIBRI_ASSIGN(const Arena arena, Arena::allocate(kSequentialBlock));
  const int64_t blocks = (named.size_bytes() + kSequentialBlock - 1) / kSequentialBlock;
  COLIBRI_ASSIGN(const Measured sequential, read_blocks(file, named, arena.data(), kSequentialBlock,
                                                        [&](int64_t i) { return i % blocks * kSequentialBlock; }));
  const int64_t places = (named.size_bytes() + kRandomBlock - 1) / kRandomBlock;
  COLIBRI_ASSIGN(const Measured random, read_blocks(file, named, arena.data(), kRandomBlock, [&](int64_t i) {
                   const auto spread = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15u;  // the golden ratio
                   return static_cast<int64_t>((spread >> 20) % static_cast<uint64_t>(places)) * kRandomBlock;
                 }));
  return DiskSpeed{file.direct(), sequential.bytes + random.bytes, sequential.per_second, random.per_second};
}

}  // namespace colibri::platform
