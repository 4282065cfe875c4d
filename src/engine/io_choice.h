// How experts are read while a model runs: past the page cache or through it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/plan.h"
#include "engine/settings.h"
#include "formats/catalog.h"
#include "platform/disk.h"
#include "platform/raw_file.h"

namespace colibri::engine {

struct IoChoice {
  platform::Access access = platform::Access::kBuffered;
  std::string name = "buffered";      ///< as the setting and the statistics say it
  std::string reason;                 ///< for the log and for `colibri plan`
  bool refused = false;               ///< direct reads were asked for and are not to be had
  double probe_bytes_per_second = 0;  ///< of reads as the store makes them; 0: not measured
};

/// Follows the setting. With "auto": buffered when the page cache has room for all experts that are not in slots; else
/// direct, unless a measurement of less than half a second finds that the page cache is faster even for what it does
/// not hold. Where direct reads are refused, buffered reads that the page cache forgets.
IoChoice choose_io(const formats::TensorCatalog& catalog, const model::WeightPlan& weights, const MemoryPlan& plan,
                   const Settings& settings);

/// The parts of the files that hold experts; those of all weights when there are none.
std::vector<platform::FileRange> ranges_to_read(const formats::TensorCatalog& catalog,
                                                const model::WeightPlan& weights);
/// Reads as the store of this plan would make them.
platform::ReadPattern pattern_of(const MemoryPlan& plan, bool direct);

}  // namespace colibri::engine
