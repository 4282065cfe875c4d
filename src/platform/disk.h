// How fast the disk below a file really is: a quick measurement that leaves the page cache out.
#pragma once

#include <cstdint>
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

}  // namespace colibri::platform
