// How experts are read while a model runs: past the page cache or through it.
#pragma once

#include <string>

#include "base/result.h"
#include "engine/plan.h"
#include "engine/settings.h"
#include "formats/catalog.h"
#include "platform/raw_file.h"

namespace colibri::engine {

struct IoChoice {
  platform::Access access = platform::Access::kBuffered;
  std::string name = "buffered";  ///< as the setting and the statistics say it
  std::string reason;             ///< for the log and for `colibri plan`
  bool refused = false;           ///< direct reads were asked for and are not to be had
};

/// Follows the setting; with "auto" buffered when the page cache has room for all experts that are not in slots, else
/// direct where the file system has it.
IoChoice choose_io(const formats::TensorCatalog& catalog, const MemoryPlan& plan, const Settings& settings);

}  // namespace colibri::engine
