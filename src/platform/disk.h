// How fast the disk below a file really is: quick measurements that the page cache does not flatter.
//
// For reports and for decisions while a model opens. What a measurement read it takes out of the page cache again,
// unless it was there before. Blocks the caller; takes pieces x in_flight bytes of memory meanwhile (which the
// process's peak will show). Thread-safety: free functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace colibri::platform {

struct DiskSpeed {
  bool direct = false;  ///< false: the file system refuses direct reads, so memory may have answered
  int64_t bytes = 0;    ///< read in all
  double sequential_bytes_per_second = 0;
  double random_bytes_per_second = 0;  ///< pieces of a megabyte, anywhere in the file
};

/// Reads up to some hundred megabytes of a file, for at most about two seconds. kInvalidModel when it cannot be opened,
/// kUsage when it is empty, kIo when a read fails.
Result<DiskSpeed> measure_disk(const std::string& path);

/// A part of a file that may be read.
struct FileRange {
  std::string path;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// How an expert store reads.
struct ReadPattern {
  int64_t piece_bytes = 1 << 20;
  int in_flight = 4;   ///< reads that wait at the same time; 1 to 64
  bool direct = true;  ///< false, or where direct reads are refused: through the page cache
  int64_t most_bytes = 256 << 20;
  std::chrono::milliseconds longest{150};
};

struct ReadSpeed {
  bool direct = false;       ///< the pieces were read directly
  int64_t bytes = 0;         ///< read in pieces
  int64_t cached_bytes = 0;  ///< of these, about how many memory answered: no other places were found. 0 when direct
  double bytes_per_second = 0;
  double latency_seconds = 0;  ///< of one read of 4 KiB while there is no other: the median; direct where possible
};

/// Reads pieces at random places of the ranges, each time others. At least one piece is read, and a last one per read
/// in flight may exceed the limits. kInvalidModel when a file cannot be opened, kUsage when nothing may be read or a
/// range leaves its file, kIo when a read fails.
Result<ReadSpeed> measure_reads(std::span<const FileRange> ranges, const ReadPattern& pattern);

}  // namespace colibri::platform
