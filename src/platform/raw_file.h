// RawFile: positioned reads of whole blocks, past the page cache where the file system allows that. What experts are
// read with while a model runs, so errors are numbers here; the caller words them.
//
// Thread-safety: const functions may be called from several threads. Nothing is allocated after opening.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "platform/file.h"

namespace colibri::platform {

enum class Access {
  kBuffered,         ///< through the page cache, which keeps what was read
  kBufferedDropped,  ///< through the page cache, which is told to forget it: for systems without direct reads
  kDirect,           ///< O_DIRECT: straight into the caller's memory
};

struct ReadOutcome {
  int64_t bytes = 0;  ///< read before it ended
  int error = 0;      ///< errno, or 0: the range is full, or the file ended (bytes < size)
};

class RawFile {
 public:
  /// What offset, size and memory of a read must be multiples of; any file system's blocks divide it.
  static constexpr int64_t kAlignment = 4096;

  /// Opens an already open file once more. kUnsupported when direct reads are refused here, kInvalidModel when another
  /// file has that name by now.
  static Result<RawFile> reopen(const File& file, Access access);
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&&) = delete;
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile();

  /// Reads from `offset` until `out` is full, at least `needed` bytes were read and the file ended, or something fails.
  /// Loops over short reads and interruptions, a bounded number of times. REQUIRES: with kDirect, whole blocks.
  ReadOutcome read(int64_t offset, std::span<std::byte> out, int64_t needed) const;
  /// The file was written to, cut or touched since it was opened.
  bool changed() const;

 private:
  RawFile(int fd, Access access) : fd_(fd), access_(access) {}
  bool remember_state();

  int fd_ = -1;
  Access access_;
  int64_t size_bytes_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace colibri::platform
