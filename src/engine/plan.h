// MemoryPlan: what Colibri will take, decided before anything is loaded.
//
// Everything large comes from arenas of exactly these sizes, and what the process holds already (program, tokenizer) is
// measured, so the plan is what the process will hold at its peak. When that exceeds the budget nothing is allocated,
// and the error says what would fit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "compute/backend.h"
#include "engine/settings.h"
#include "kv/kv_cache.h"
#include "kv/prefix_cache.h"
#include "kv/state_cache.h"
#include "model/decoder.h"
#include "model/weights.h"
#include "store/expert_readers.h"
#include "store/slot_plan.h"

namespace colibri::engine {

struct MemoryPlan {
  int64_t budget_bytes = 0;   ///< the least of setting `memory` and what is free (less a reserve when not set)
  int64_t minimum_bytes = 0;  ///< what the least of everything takes: a budget below is refused
  int64_t dense_bytes = 0;
  int64_t expert_bytes = 0;        ///< of the experts that have room: all, or the slots
  int64_t expert_bytes_total = 0;  ///< of all
  int64_t kv_bytes = 0;            ///< keys, values and recurrent state
  int64_t prefix_bytes = 0;        ///< computed prefixes
  int64_t workspace_bytes = 0;     ///< activations and tables of the decoder
  int64_t scratch_bytes = 0;       ///< of the kernels
  int64_t reader_bytes = 0;        ///< of the threads that read experts; 0 unless experts stream
  int64_t staging_bytes = 0;       ///< of all loading threads; given back before keys, values and workspace are there
  int64_t process_bytes = 0;       ///< program, tokenizer, sequences' own memory
  int64_t peak_so_far = 0;         ///< of the process, before anything of the above is there

  int64_t planned_bytes() const {
    const int64_t while_running = kv_bytes + prefix_bytes + workspace_bytes;
    return std::max(peak_so_far, process_bytes + dense_bytes + expert_bytes + scratch_bytes + reader_bytes +
                                     std::max(staging_bytes, while_running));
  }

  /// What is neither weights nor keys, values, workspace and scratch.
  int64_t rest_bytes() const {
    return planned_bytes() - dense_bytes - expert_bytes - kv_bytes - prefix_bytes - workspace_bytes - scratch_bytes;
  }

  bool streams = false;       ///< not every expert has room: the others are read when they are wanted
  int64_t prefill_chunk = 1;  ///< rows of a prefill pass
  store::SlotPlan slots;
  store::ReaderOptions readers;
  std::string note;  ///< what the user should know: a budget that was lowered; or empty

  int loading_threads = 1;
  model::DecoderLimits decoder_limits;
  kv::KvGeometry kv;
  kv::StateGeometry states;
  kv::PrefixGeometry prefixes;
  compute::BackendOptions backend;
};

/// `wanted_context`: positions to plan for when the setting is auto; 0: the model's context, or what a quarter of the
/// budget holds. When not all experts fit, the rest of the budget becomes slots; before anything is refused, prefill
/// passes and slots shrink. kDoesNotFit with the numbers; kUsage when `context` exceeds the model's; kUnsupported for
/// settings whose promise this version cannot keep.
Result<MemoryPlan> make_plan(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings,
                             int64_t wanted_context);

}  // namespace colibri::engine
