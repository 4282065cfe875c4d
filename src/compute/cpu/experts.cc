// The experts of one layer. Rows are grouped by expert, so that each expert's weights are read once per call:
//   1. group:   counting sort of the assignments (row, choice); an assignment's place in that order is its slot
//   2. gather:  the rows of each expert, packed into tiles
//   3. gate_up: hidden = silu(gate x) * up x, tasks (expert, panels), written packed for the next step
//   4. down:    one output row per slot, tasks (expert, panels)
//   5. sum:     per row, its slots in ascending order (which is ascending expert id)
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {

struct CpuBackend::ExpertCall {
  Rows x;
  const int32_t* ids;
  const float* weights;
  int top_k;
  std::span<const ExpertWeights* const> experts;
  Rows out;
  int64_t n_active = 0;                   ///< experts that have rows: scratch_.active[0 .. n_active)
  const ExpertWeights* sample = nullptr;  ///< one of them; all have its shape
};

namespace {

void check_shape(const ExpertWeights& e, const ExpertWeights& sample, int64_t hidden) {
  COLIBRI_CHECK(e.gate.k == hidden && e.up.k == hidden && e.down.n == hidden);
  COLIBRI_CHECK(e.gate.n == sample.gate.n && e.up.n == sample.gate.n && e.down.k == sample.gate.n);
}

/// A slice of a matrix product: `panels` panels from number `panel` on.
TileJob tile_job(const PackedMatrix& w, int64_t panel, int64_t panels) {
  TileJob job;
  job.k = w.k;
  job.panel_stride = panel_bytes(w.encoding, w.k);
  job.panels = w.data + panel * job.panel_stride;
  job.n = std::min(w.n - panel * kPanelWidth, panels * kPanelWidth);
  return job;
}

}  // namespace

void CpuBackend::experts(Rows x, const int32_t* ids, const float* weights, int top_k,
                         std::span<const ExpertWeights* const> experts, Rows out) {
  COLIBRI_CHECK(x.rows == out.rows && x.width == out.width && top_k >= 1);
  COLIBRI_CHECK(x.rows * top_k <= Scratch::assignments(limits_) && x.width <= Scratch::expert_inputs(limits_));
  COLIBRI_CHECK(static_cast<int64_t>(experts.size()) <= limits_.n_experts);
  if (x.rows == 0) return;
  ExpertCall call{x, ids, weights, top_k, experts, out};
  group_rows(call);
  gather_inputs(call);
  gate_and_up(call);
  down(call);
  sum_experts(call);
}

void CpuBackend::group_rows(ExpertCall& call) {
  const int64_t n = call.x.rows * call.top_k;
  const auto n_experts = static_cast<int32_t>(call.experts.size());
  int32_t* end = scratch_.group_end;
  std::fill_n(end, n_experts, 0);
  for (int64_t i = 0; i < n; ++i) {
    COLIBRI_CHECK(call.ids[i] >= 0 && call.ids[i] < n_experts);
    ++end[call.ids[i]];
  }
  int32_t begin = 0;
  for (int32_t e = 0; e < n_experts; ++e) {
    const int32_t count = std::exchange(end[e], begin);  // for now where the next row of e goes
    begin += count;
    if (count > 0) scratch_.active[call.n_active++] = e;
  }
  for (int64_t i = 0; i < n; ++i) {
    scratch_.slots[i] = end[call.ids[i]]++;
    scratch_.grouped[scratch_.slots[i]] = static_cast<int32_t>(i / call.top_k);
  }
  for (int64_t a = 0; a < call.n_active; ++a) {
    const ExpertWeights* expert = call.experts[static_cast<size_t>(scratch_.active[a])];
    COLIBRI_CHECK(expert != nullptr);
    if (a == 0) call.sample = expert;
    check_shape(*expert, *call.sample, call.x.width);
  }
  COLIBRI_CHECK(call.sample->gate.n <= limits_.max_expert_width);
}

CpuBackend::ExpertGroup CpuBackend::group_of(const ExpertCall& call, int64_t active) const {
  const int32_t e = scratch_.active[active];
  const int64_t first = e > 0 ? scratch_.group_end[e - 1] : 0;
  return {call.experts[static_cast<size_t>(e)], first, {scratch_.group_end[e] - first, kernels_.max_tile_rows}};
}

void CpuBackend::gather_inputs(const ExpertCall& call) {
  const int64_t width = call.x.width;
  for_each_row(call.n_active, call.x.rows * call.top_k * width / call.n_active, [&](int64_t active) {
    const ExpertGroup group = group_of(call, active);
    for (int64_t t = 0; t < group.tiles.count(); ++t) {
      const int64_t slot = group.first_slot + group.tiles.first(t);
      const float* rows[kMaxTileRows];
      for (int64_t r = 0; r < group.tiles.size(t); ++r) rows[r] = call.x.row(scratch_.grouped[slot + r]);
      pack_tile(rows, group.tiles.size(t), width, scratch_.activations + slot * width);
    }
  });
}

void CpuBackend::gate_and_up(const ExpertCall& call) {
  const PackedMatrix& shape = call.sample->gate;
  const int64_t panels = panels_per_task(shape, 2 * call.n_active, threads());
  const int64_t tasks = ceil_div(shape.panels(), panels), tile_width = panels * kPanelWidth;
  pool_->run(call.n_active * tasks, [&](int64_t task, int thread) {
    const ExpertGroup group = group_of(call, task / tasks);
    const int64_t panel = task % tasks * panels;
    float* gate = scratch_.expert_tiles + thread * Scratch::kExpertTileFloats;
    float* up = gate + kMaxTileRows * tile_width;
    for (int64_t t = 0; t < group.tiles.count(); ++t) {
      const int64_t slot = group.first_slot + group.tiles.first(t), rows = group.tiles.size(t);
      const auto multiply = [&](const PackedMatrix& w, float* to) {
        TileJob job = tile_job(w, panel, panels);
        job.a = scratch_.activations + slot * w.k;
        job.rows = rows;
        job.c = to;
        job.c_stride = tile_width;
        kernels_.tile[static_cast<int>(w.encoding)](&job);
        return job.n;
      };
      multiply(group.expert->gate, gate);
      const int64_t n = multiply(group.expert->up, up);
      const float* hidden[kMaxTileRows];
      for (int64_t r = 0; r < rows; ++r) {
        kernels_.silu_mul(gate + r * tile_width, up + r * tile_width, n, gate + r * tile_width);
        hidden[r] = gate + r * tile_width;
      }
      pack_tile(hidden, rows, n, scratch_.expert_hidden + slot * shape.n + panel * kPanelWidth * rows);
    }
  });
}

void CpuBackend::down(const ExpertCall& call) {
  const PackedMatrix& shape = call.sample->down;
  const int64_t panels = panels_per_task(shape, call.n_active, threads());
  const int64_t tasks = ceil_div(shape.panels(), panels);
  float* outputs = scratch_.activations;  // the packed inputs are used up
  pool_->run(call.n_active * tasks, [&](int64_t task, int) {
    const ExpertGroup group = group_of(call, task / tasks);
    const int64_t panel = task % tasks * panels;
    TileJob job = tile_job(group.expert->down, panel, panels);
    job.c_stride = shape.n;
    for (int64_t t = 0; t < group.tiles.count(); ++t) {
      const int64_t slot = group.first_slot + group.tiles.first(t);
      job.a = scratch_.expert_hidden + slot * shape.k;
      job.rows = group.tiles.size(t);
      job.c = outputs + slot * shape.n + panel * kPanelWidth;
      kernels_.tile[static_cast<int>(group.expert->down.encoding)](&job);
    }
  });
}

void CpuBackend::sum_experts(const ExpertCall& call) {
  for_each_row(call.x.rows, call.top_k * call.x.width, [&](int64_t r) {
    int32_t* slots = scratch_.slots + r * call.top_k;
    float* weights = scratch_.sum_weights + r * call.top_k;
    for (int j = 0; j < call.top_k; ++j) {  // insertion sort
      const int32_t slot = slots[j];
      int place = j;
      for (; place > 0 && slots[place - 1] > slot; --place) {
        slots[place] = slots[place - 1];
        weights[place] = weights[place - 1];
      }
      slots[place] = slot;
      weights[place] = call.weights[r * call.top_k + j];
    }
    const WeightedSumJob job{scratch_.activations, slots, weights, call.top_k, call.x.width, call.out.row(r)};
    kernels_.weighted_sum(&job);
  });
}

}  // namespace colibri::compute
