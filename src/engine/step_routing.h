// StepRouting: watches the router during a step and credits each decision to its sequence.
//
// Thread-safety: the engine's thread only. Allocates only in its constructor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "model/batch.h"
#include "model/spec.h"

namespace colibri::engine {

class StepRouting final : public model::RoutingObserver {
 public:
  explicit StepRouting(const model::ModelSpec& spec);
  /// `scheduled` must stay as it is until the step's forward pass is over.
  void begin(const std::vector<ScheduledSegment>& scheduled) { scheduled_ = &scheduled; }
  void on_route(int layer, const int32_t* ids, const float* weights, int64_t rows, int top_k,
                std::span<const int32_t> missing) override;
  /// A row of the segment chose this expert in the layer that was routed last.
  bool chose(const ScheduledSegment& segment, int32_t expert) const;

 private:
  static bool report(const Sequence& sequence, int layer, const model::BatchSegment& rows, const int32_t* ids,
                     const float* weights, int top_k);
  void credit(const ScheduledSegment& segment, int moe_layer, const int32_t* ids, int64_t count);

  const std::vector<ScheduledSegment>* scheduled_ = nullptr;
  std::vector<int> moe_index_;  // decoder layer -> number among MoE layers
  int n_experts_, n_stored_;
  std::vector<uint64_t> seen_;  // [experts], stamp of the last (segment, layer) that wanted it
  uint64_t stamp_ = 0;
  std::vector<char> missing_;     // [experts], of the layer routed last
  const int32_t* ids_ = nullptr;  // of the layer routed last
  int top_k_ = 0;
};

}  // namespace colibri::engine
