#include "common/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/signals.h"

namespace colibri::common {
namespace {

constexpr size_t kChunkBytes = 1 << 16;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > STDERR_FILENO) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool is_folder(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

// Appends up to one chunk; 0 at the end.
Outcome<size_t> read_chunk(int fd, const std::string& name, std::string& out) {
  const size_t before = out.size();
  out.resize(before + kChunkBytes);
  ssize_t n = 0;
  do {
    n = ::read(fd, out.data() + before, kChunkBytes);
  } while (n < 0 && errno == EINTR);
  out.resize(before + (n > 0 ? static_cast<size_t>(n) : 0));
  if (n < 0) return io_error(name + ": cannot read: " + std::strerror(errno));
  if (n == 0) settle_signals();  // whoever stops a pipeline ends our input as well
  return static_cast<size_t>(n);
}

}  // namespace

Outcome<std::string> read_file(const std::string& path) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : path;
  const Descriptor fd(standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return usage_error(name + ": cannot open: " + std::strerror(errno));
  if (is_folder(fd.get())) return usage_error(name + ": is a folder, a file is needed");
  std::string text;
  for (;;) {
    const auto n = read_chunk(fd.get(), name, text);
    if (!n) return n.error();
    if (*n == 0) return text;
  }
}

bool standard_input_is_terminal() { return isatty(STDIN_FILENO) == 1; }

Outcome<bool> LineReader::fill() {
  buffer_.erase(0, position_);
  position_ = 0;
  const auto n = read_chunk(STDIN_FILENO, "standard input", buffer_);
  if (!n) return n.error();
  return *n > 0;
}

Outcome<std::optional<std::string>> LineReader::next() {
  size_t searched = position_;
  size_t end = 0;
  while ((end = buffer_.find('\n', searched)) == std::string::npos) {
    searched = buffer_.size() - position_;  // fill() moves what is there to the front
    const auto more = fill();
    if (!more) return more.error();
    if (!*more) break;
  }
  if (end == std::string::npos && buffer_.empty()) return std::optional<std::string>();
  ++line_;
  std::string line = buffer_.substr(position_, end == std::string::npos ? end : end - position_);
  position_ = end == std::string::npos ? buffer_.size() : end + 1;
  return std::optional(std::move(line));
}

}  // namespace colibri::common
