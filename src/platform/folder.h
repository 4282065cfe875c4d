// Folders of files that programs keep for each other: what is there, how old, and taking it away.
//
// Another process may add or remove files at any time, so nothing here minds a file that is gone.
// Thread-safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace colibri::platform {

struct FolderFile {
  std::string name;
  int64_t size_bytes = 0;
  int64_t modified_ns = 0;  ///< since 1970
};

/// The regular files of a folder, by name; links, folders and the rest are left out. kInvalidModel when it cannot be
/// listed.
Result<std::vector<FolderFile>> list_files(const std::string& folder);

/// kIo names the file and the reason; one that is not there is removed already.
Status remove_file(const std::string& path);

/// Says that a file was used just now, for those who remove the oldest. A file that is gone or not ours stays as it is.
void set_modified(const std::string& path, int64_t modified_ns);

/// Removes a temporary file that a FileWriter left behind when its process was killed; one that is being written stays.
/// True: it is gone.
bool remove_abandoned(const std::string& path);

}  // namespace colibri::platform
