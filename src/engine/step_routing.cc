#include "engine/step_routing.h"

#include <algorithm>

namespace colibri::engine {

StepRouting::StepRouting(const model::ModelSpec& spec)
    : n_experts_(spec.moe.router.n_experts),
      n_stored_(spec.moe.n_stored()),
      seen_(static_cast<size_t>(n_experts_)),
      missing_(static_cast<size_t>(n_experts_)) {
  int moe = 0;
  moe_index_.assign(spec.layers.empty() ? 0 : static_cast<size_t>(spec.layers.back().number) + 1, -1);
  for (const model::LayerSpec& layer : spec.layers)
    if (layer.moe) moe_index_[static_cast<size_t>(layer.number)] = moe++;
}

void StepRouting::on_route(int layer, const int32_t* ids, const float* weights, int64_t, int top_k,
                           std::span<const int32_t> missing) {
  ids_ = ids;
  top_k_ = top_k;
  std::fill(missing_.begin(), missing_.end(), char{0});
  for (const int32_t e : missing) missing_[static_cast<size_t>(e)] = 1;
  for (const ScheduledSegment& segment : *scheduled_) {
    const int64_t offset = segment.rows.first_row * top_k;
    credit(segment, moe_index_[static_cast<size_t>(layer)], ids + offset, segment.rows.n_rows * top_k);
    if (!report(*segment.sequence, layer, segment.rows, ids + offset, weights + offset, top_k))
      segment.sequence->cancelled = true;
  }
}

bool StepRouting::report(const Sequence& sequence, int layer, const model::BatchSegment& rows, const int32_t* ids,
                         const float* weights, int top_k) {
  if (sequence.sink != nullptr)
    return sequence.sink->on_routing(layer, rows.first_position, rows.n_rows, ids, weights, top_k);
  const RoutingListener& listener = sequence.request.routing;
  return !listener || listener(layer, rows.first_position, rows.n_rows, ids, weights, top_k);
}

void StepRouting::credit(const ScheduledSegment& segment, int moe_layer, const int32_t* ids, int64_t count) {
  SequenceStatistics& stats = segment.sequence->stats;
  ExpertUse& use = segment.prefill ? stats.prefill.experts : stats.decode.experts;
  uint32_t* activations = stats.activations.data() + static_cast<int64_t>(moe_layer) * n_experts_;
  ++stamp_;
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<size_t>(ids[i]);
    ++activations[id];
    if (seen_[id] == stamp_ || ids[i] >= n_stored_) continue;
    seen_[id] = stamp_;
    ++(missing_[id] != 0 ? use.misses : use.hits);
  }
}

bool StepRouting::chose(const ScheduledSegment& segment, int32_t expert) const {
  if (ids_ == nullptr) return false;
  const int32_t* first = ids_ + segment.rows.first_row * top_k_;
  const int32_t* end = first + segment.rows.n_rows * top_k_;
  return std::find(first, end, expert) != end;
}

}  // namespace colibri::engine
