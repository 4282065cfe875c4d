#include "common/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace colibri::common {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

// 0, or the errno of the write that failed.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

std::string reason(int code) { return std::strerror(code); }

Error cannot_write(const std::string& name, int code) {
  return io_error(name + ": cannot write: " + reason(code) + (code == ENOSPC ? "; free some space and run again" : ""));
}

// The file behind links, so that renaming replaces the file and not the link.
std::string resolved(const std::string& path) {
  char buffer[PATH_MAX];
  return realpath(path.c_str(), buffer) ? std::string(buffer) : path;
}

bool is_special_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

Error cannot_go_back(const std::string& path) {
  return usage_error(path + ": is a pipe or a terminal, and the start of this output is written last; name a file");
}

Outcome<int> open_special_file(const std::string& path, OutputFile::Order order) {
  struct stat info {};
  const bool must_go_back = order == OutputFile::Order::kStartComesLast;
  // Opening a pipe could wait for its reader, so this comes first.
  if (must_go_back && ::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) return cannot_go_back(path);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return cannot_write(path, errno);
  if (!must_go_back || ::lseek(fd, 0, SEEK_CUR) >= 0) return fd;
  ::close(fd);
  return cannot_go_back(path);
}

}  // namespace

Status StandardOutput::write(std::string_view text) {
  buffer_ += text;
  return buffer_.size() < kBufferBytes ? Status() : flush();
}

Status StandardOutput::flush() {
  if (closed_) return io_error("standard output: closed by its reader");
  const int code = write_all(STDOUT_FILENO, buffer_);
  buffer_.clear();
  if (code == 0) return {};
  closed_ = code == EPIPE;
  return cannot_write("standard output", code);
}

bool StandardOutput::is_terminal() const { return isatty(STDOUT_FILENO) == 1; }

struct OutputFile::State {
  std::string path;       // what the user called it
  std::string target;     // the file that is replaced
  std::string temporary;  // empty: `target` is written directly
  std::string buffer;
  int fd = -1;
  std::optional<ExitHook> hook;

  ~State() {
    if (fd >= 0) ::close(fd);
    if (!temporary.empty()) ::unlink(temporary.c_str());
  }
};

OutputFile::OutputFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;
OutputFile::~OutputFile() = default;

Outcome<OutputFile> OutputFile::create(const std::string& path, Order order) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->target = resolved(path);
  if (is_special_file(path)) {
    const auto fd = open_special_file(path, order);
    if (!fd) return fd.error();
    state->fd = *fd;
    return OutputFile(std::move(state));
  }
  std::string name = state->target + ".XXXXXX";
  state->fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (state->fd < 0)
    return io_error(path + ": cannot create: " + reason(errno) + "; name a folder that can be written");
  state->temporary = name;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(state->fd, 0666 & ~mask);
  state->hook.emplace([name] { ::unlink(name.c_str()); });
  return OutputFile(std::move(state));
}

Status OutputFile::write(std::string_view bytes) {
  state_->buffer += bytes;
  return state_->buffer.size() < kBufferBytes ? Status() : flush();
}

Status OutputFile::flush() {
  const int code = write_all(state_->fd, state_->buffer);
  state_->buffer.clear();
  if (code != 0) return cannot_write(state_->path, code);
  return {};
}

Status OutputFile::rewrite_start(std::string_view bytes) {
  if (Status flushed = flush(); !flushed) return flushed;
  if (::lseek(state_->fd, 0, SEEK_SET) != 0) return cannot_write(state_->path, errno);
  const int code = write_all(state_->fd, bytes);
  if (code != 0) return cannot_write(state_->path, code);
  ::lseek(state_->fd, 0, SEEK_END);
  return {};
}

Status OutputFile::commit() {
  if (Status flushed = flush(); !flushed) return flushed;
  const int fd = std::exchange(state_->fd, -1);
  if (::close(fd) != 0) return cannot_write(state_->path, errno);
  if (state_->temporary.empty()) return {};
  if (::rename(state_->temporary.c_str(), state_->target.c_str()) != 0) return cannot_write(state_->path, errno);
  state_->hook.reset();
  state_->temporary.clear();
  return {};
}

void open_missing_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) return;
  }
}

void print_error_line(std::string_view line) {
  std::string text = "colibri: ";
  for (const char c : line) text += c == '\n' ? ' ' : c;
  text += '\n';
  write_all(STDERR_FILENO, text);
}

bool error_stream_is_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

}  // namespace colibri::common
