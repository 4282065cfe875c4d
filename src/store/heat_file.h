// Heat file: how often each expert was wanted, kept between runs, so that a start reads the hottest experts first.
//
// Small (4 bytes per expert), versioned and checksummed; docs/heat_file.md specifies every byte. Losing it costs some
// misses and nothing else, so whoever reads it logs an error and goes on, and a damaged one is replaced by the next
// write. At a path that a user gave, only a file that begins as a heat file does is ever replaced.
// Thread-safety: functions without state; several processes may write the same path, the last one wins as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/catalog.h"

namespace colibri::store {

struct Heat {
  int n_layers = 0;           ///< MoE layers
  int n_experts = 0;          ///< of one layer
  std::vector<float> values;  ///< [n_layers, n_experts], finite and >= 0
};

/// What says that two paths hold the same model: format, sizes of the files, and every tensor's name, type, shape and
/// place. No path and no weight is in it: a model that moved keeps its heat, one with other values in the same places
/// (a fine-tune in the same file type) shares it.
uint64_t model_identity(const formats::TensorCatalog& catalog);

/// colibri/heat-<16 hex digits> in $XDG_CACHE_HOME, else in $HOME/.cache; empty when neither is an absolute path.
std::string default_heat_path(uint64_t identity);

/// The heat that was written for this model; nullopt when there is no such file. The error of a file that is damaged,
/// of another version, model or shape, or unreadable names the file and what is wrong, and says what becomes of it.
Result<std::optional<Heat>> read_heat(const std::string& path, uint64_t identity, int n_layers, int n_experts);

/// What happens to something else that has the heat file's name.
enum class Foreign {
  kKeep,     ///< it may be anything: a wrong path must not cost a user's data
  kReplace,  ///< it is in a place of our own
};

/// Replaces the file as a whole or leaves it as it was; makes the folders above it. kDoesNotFit when the disk is full,
/// kUsage when something other than a heat file has that name and is to be kept. REQUIRES: heat.values has n_layers *
/// n_experts values, all finite and not negative.
Status write_heat(const std::string& path, uint64_t identity, const Heat& heat, Foreign foreign = Foreign::kKeep);

}  // namespace colibri::store
