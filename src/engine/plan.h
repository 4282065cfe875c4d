// MemoryPlan: what Colibri will take, decided before anything is loaded.
//
// Everything large comes from arenas of exactly these sizes. When the sum exceeds the budget nothing is allocated, and
// the error says what would fit.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "compute/backend.h"
#include "engine/settings.h"
#include "kv/kv_cache.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace colibri::engine {

struct MemoryPlan {
  int64_t budget_bytes = 0;  ///< setting `memory`, or what the machine leaves less a reserve
  int64_t dense_bytes = 0;
  int64_t expert_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t workspace_bytes = 0;  ///< activations, tables, kernel scratch
  int64_t staging_bytes = 0;    ///< while loading
  int64_t process_bytes = 0;    ///< program, tokenizer, threads: an estimate

  int64_t planned_bytes() const {
    return dense_bytes + expert_bytes + kv_bytes + workspace_bytes + staging_bytes + process_bytes;
  }

  model::DecoderLimits decoder_limits;
  kv::KvGeometry kv;
  compute::BackendOptions backend;
};

/// `wanted_context`: positions to plan for when the setting is auto; 0: the model's context, or what a quarter of the
/// budget holds. kDoesNotFit with the numbers; kUsage when `context` exceeds the model's; kUnsupported for settings
/// whose promise this version cannot keep.
Result<MemoryPlan> make_plan(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings,
                             int64_t wanted_context);

}  // namespace colibri::engine
