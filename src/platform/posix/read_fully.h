// read_fully: the loop around pread that every positioned read goes through. The call is a parameter so that tests can
// inject short reads, interruptions and failures.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

namespace colibri::platform {

struct ReadOutcome {
  int64_t bytes = 0;  ///< read before it ended
  int error = 0;      ///< errno, or 0: the range is full, or the file ended (bytes < size)
};

template <typename Pread>
ReadOutcome read_fully(Pread&& pread_at, int fd, int64_t offset, std::span<std::byte> out) {
  // Linux moves at most 0x7ffff000 bytes a call and says so with a short read; EAGAIN may come from odd file systems.
  constexpr int kMaxStalls = 1000;
  ReadOutcome outcome;
  int stalls = 0;
  while (outcome.bytes < static_cast<int64_t>(out.size())) {
    const std::span<std::byte> rest = out.subspan(static_cast<size_t>(outcome.bytes));
    const ssize_t n = pread_at(fd, rest.data(), rest.size(), static_cast<off_t>(offset + outcome.bytes));
    if (n == 0) return outcome;
    if (n > 0) {
      outcome.bytes += n;
      stalls = 0;
    } else if ((errno != EINTR && errno != EAGAIN) || ++stalls > kMaxStalls) {
      outcome.error = errno;
      return outcome;
    }
  }
  return outcome;
}

}  // namespace colibri::platform
