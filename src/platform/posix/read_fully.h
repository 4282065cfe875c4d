// read_fully: the loop around pread that every positioned read goes through. The call is a parameter so that tests can
// inject short reads, interruptions and failures.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "platform/raw_file.h"

namespace colibri::platform {

/// Reads until `out` is full, the file ends, or something fails. After a short read it goes on at the last multiple of
/// `block` bytes, unless `needed` bytes are there: then a file that ends within a block is not asked again.
template <typename Pread>
ReadOutcome read_fully(Pread&& pread_at, int fd, int64_t offset, std::span<std::byte> out, int64_t block = 1,
                       int64_t needed = std::numeric_limits<int64_t>::max()) {
  // Linux moves at most 0x7ffff000 bytes a call and says so with a short read; EAGAIN may come from odd file systems.
  constexpr int kMaxStalls = 1000;
  ReadOutcome outcome;
  int stalls = 0;
  for (int64_t from = 0; from < static_cast<int64_t>(out.size());) {
    const std::span<std::byte> rest = out.subspan(static_cast<size_t>(from));
    const ssize_t n = pread_at(fd, rest.data(), rest.size(), static_cast<off_t>(offset + from));
    if (n > 0 && from + n > outcome.bytes) {
      outcome.bytes = from + n;
      stalls = 0;
      if (outcome.bytes >= needed) return outcome;
      from = outcome.bytes / block * block;
    } else if (n >= 0) {  // nothing new: the file ends here
      return outcome;
    } else if ((errno != EINTR && errno != EAGAIN) || ++stalls > kMaxStalls) {
      outcome.error = errno;
      return outcome;
    }
  }
  return outcome;
}

}  // namespace colibri::platform
