// What is refused before a model is loaded: ids that it does not have, prompts that its context does not hold, sampling
// that makes no sense.
//
// Reads the model's headers only. When these cannot be read every check passes, and opening the model says why.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "common/failure.h"
#include "common/settings.h"

namespace colibri::cli {

using namespace common;

struct ModelLimits {
  int32_t vocab_size = std::numeric_limits<int32_t>::max();
  int64_t context = std::numeric_limits<int64_t>::max();        ///< the setting, else the model's
  int64_t model_context = std::numeric_limits<int64_t>::max();  ///< what the model was trained for
};

ModelLimits model_limits(const std::string& model, const Settings& settings);

/// CONTEXT_OVERFLOW with both numbers when the context holds less than `needed` tokens. `what` needs them: "bench -p
/// 9".
Status check_room(const ModelLimits& limits, int64_t needed, const std::string& what);

}  // namespace colibri::cli
