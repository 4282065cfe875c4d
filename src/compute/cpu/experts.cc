// The experts of one layer. Rows are grouped by expert, so that each expert's weights are read once per call:
//   1. group:    counting sort of the assignments (row, choice); an assignment's place in that order is its slot.
//                Slots hold pointers to their rows: nothing is copied
//   2. gate_up:  hidden = f(gate x, up x), tasks (expert, one strip of the hidden width), stored as down reads it
//   3. down:     tasks of output columns; each goes through the experts in ascending order and adds weight * output to
//                the rows. So no two tasks touch the same output, and every output is one chain
// Steps 2 and 3 are done for some experts at a time when they arrive so. Few rows may meet their experts in any order:
// then step 3 keeps the outputs of all slots apart, and end_experts() adds them up, in the same order as always.
// A call for a part of the experts groups all rows again.
// Identity experts have the last slots. Their outputs are the rows themselves, so end_experts() adds them too.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

const float* part_of(const float* bias, int64_t column) { return bias != nullptr ? bias + column : nullptr; }

}  // namespace

void CpuBackend::experts(Rows x, const int32_t* ids, const float* weights, const ExpertParams& params,
                         std::span<const ExpertWeights* const> experts, Rows out) {
  start_experts({x, ids, weights, params, experts, out, false});
  add_experts({scratch_.active, static_cast<size_t>(call_.n_active)});
  end_experts();
}

void CpuBackend::begin_experts(Rows x, const int32_t* ids, const float* weights, const ExpertParams& params,
                               std::span<const ExpertWeights* const> experts, Rows out) {
  COLIBRI_CHECK(params.only.first == 0 && params.only.is_last(static_cast<int64_t>(experts.size())));
  start_experts({x, ids, weights, params, experts, out, x.rows <= limits_.max_apart_rows});
}

void CpuBackend::start_experts(const ExpertCall& call) {
  const Rows &x = call.x, &out = call.out;
  COLIBRI_CHECK(x.rows == out.rows && x.width == out.width && call.params.top_k >= 1 && call.params.n_identity >= 0);
  COLIBRI_CHECK(call.slots() <= Scratch::assignments(limits_) && x.width <= Scratch::widest_input(limits_));
  COLIBRI_CHECK(static_cast<int64_t>(call.experts.size()) + call.params.n_identity <= limits_.n_experts);
  call_ = call;
  if (x.rows > 0) group_rows(call_);
  if (call.params.only.first > 0) return;
  for_each_row(out.rows, out.width, [&out](int64_t r) { std::fill_n(out.row(r), out.width, 0.0f); });
}

void CpuBackend::add_experts(std::span<const int32_t> numbers) {
  if (numbers.empty()) return;
  gate_and_up(numbers);
  call_.apart ? down_apart(numbers) : down(numbers);
}

// Slots are ordered by expert, so every row gets its outputs in ascending expert id.
void CpuBackend::end_experts() {
  const int64_t n = call_.slots(), width = call_.out.width, begin = call_.apart ? 0 : call_.first_identity;
  if (begin == n || !call_.params.only.is_last(static_cast<int64_t>(call_.experts.size()))) return;
  constexpr int64_t kColumns = 512;
  pool_->run(ceil_div(width, kColumns), [&](int64_t task, int) {
    const int64_t column = task * kColumns, columns = std::min(kColumns, width - column);
    for (int64_t slot = begin; slot < n; ++slot) {
      const int64_t row = scratch_.grouped[slot];
      const float* output = slot < call_.first_identity ? scratch_.apart + slot * width : call_.x.row(row);
      kernels_.add_scaled(call_.out.row(row) + column, output_weight(slot), output + column, columns);
    }
  });
}

/// Gives every assignment its slot.
void CpuBackend::count_rows(ExpertCall& call) {
  const int64_t n = call.slots();
  const auto n_weights = static_cast<int32_t>(call.experts.size()), n_experts = n_weights + call.params.n_identity;
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
    if (count == 0 || e >= n_weights) continue;
    call.first_identity = begin;
    if (e >= call.params.only.first && e < call.params.only.end) scratch_.active[call.n_active++] = e;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int32_t slot = end[call.ids[i]]++;
    scratch_.grouped[slot] = static_cast<int32_t>(i / call.params.top_k);
    scratch_.slot_weights[slot] = call.weights[i];
  }
}

void CpuBackend::group_rows(ExpertCall& call) {
  count_rows(call);
  check_experts(call);
  if (call.strip_inputs) quantise_rows(call.x);
  const int64_t n = call.slots(), width = call.width();
  const int64_t strips = Scratch::strips_of(call.x.width), hidden = Scratch::strips_of(width);
  for (int64_t slot = 0; slot < n; ++slot) {
    scratch_.float_rows[slot] = call.x.row(scratch_.grouped[slot]);
    scratch_.strip_rows[slot] = scratch_.strips + scratch_.grouped[slot] * strips;
    scratch_.hidden_float_rows[slot] = scratch_.hidden_floats + slot * width;
    scratch_.hidden_strip_rows[slot] = scratch_.hidden_strips + slot * hidden;
  }
  call.inputs = {scratch_.float_rows, scratch_.strip_rows, n};
  call.hidden = {scratch_.hidden_float_rows, scratch_.hidden_strip_rows, n};
}

/// All experts have one shape; which forms of inputs they read may differ.
void CpuBackend::check_experts(ExpertCall& call) {
  const bool gated = is_gated(call.params.activation);
  for (int64_t a = 0; a < call.n_active; ++a) {
    const ExpertWeights* e = call.experts[static_cast<size_t>(scratch_.active[a])];
    COLIBRI_CHECK(e != nullptr);
    if (a == 0) call.sample = e;
    const int64_t width = call.width();
    COLIBRI_CHECK(e->up.k == call.x.width && e->down.n == call.x.width);
    COLIBRI_CHECK(e->up.n == width && e->down.k == width && width <= limits_.max_expert_width);
    COLIBRI_CHECK(gated ? e->gate.k == call.x.width && e->gate.n == width : e->gate.n == 0);
    COLIBRI_CHECK(!call.params.weight_on_input || (e->gate_bias == nullptr && e->up_bias == nullptr));
    for (const PackedMatrix* w : {&e->gate, &e->up})
      if (w->n > 0) (takes_strips(*w) ? call.strip_inputs : call.float_inputs) = true;
    (takes_strips(e->down) ? call.strip_hidden : call.float_hidden) = true;
  }
  COLIBRI_CHECK((limits_.quantised_experts || !call.strip_hidden) && (limits_.float_experts || !call.float_hidden));
}

CpuBackend::ExpertGroup CpuBackend::group_of(int32_t expert) const {
  const int64_t first = expert > 0 ? scratch_.group_end[expert - 1] : 0;
  return {call_.experts[static_cast<size_t>(expert)], first, scratch_.group_end[expert] - first};
}

float CpuBackend::output_weight(int64_t slot) const {
  const bool one = call_.params.weight_on_input && slot < call_.first_identity;
  return one ? 1.0f : scratch_.slot_weights[slot];
}

void CpuBackend::gate_and_up(std::span<const int32_t> numbers) {
  const int64_t width = call_.width(), strips = Scratch::strips_of(width);
  pool_->run(static_cast<int64_t>(numbers.size()) * strips, [&](int64_t task, int thread) {
    const ExpertGroup group = group_of(numbers[static_cast<size_t>(task / strips)]);
    const ExpertWeights& expert = *group.expert;
    const int64_t strip = task % strips, column = strip * kStripInputs;
    const int64_t n = std::min<int64_t>(kStripInputs, width - column);
    const int64_t panel = strip * kTilePanels, panels = ceil_div(n, kPanelWidth);
    float* gate = of_thread(scratch_.tiles, 2 * Scratch::kTileFloats, thread);
    float* up = gate + Scratch::kTileFloats;
    for (int64_t first = 0; first < group.rows; first += kRowBlock) {
      const int64_t slot = group.first_slot + first, rows = std::min(kRowBlock, group.rows - first);
      const InputRows x = call_.inputs.slice(slot, rows);
      if (expert.gate.n > 0)
        multiply_panels(x, expert.gate, panel, panels, part_of(expert.gate_bias, column), {gate, kStripInputs}, thread);
      multiply_panels(x, expert.up, panel, panels, part_of(expert.up_bias, column), {up, kStripInputs}, thread);
      for (int64_t r = 0; r < rows; ++r) {
        float* hidden = gate + r * kStripInputs;
        activate_row(slot + r, hidden, up + r * kStripInputs, n);
        store_hidden(hidden, slot + r, strip, n);
      }
    }
  });
}

/// gate = f(gate, up). Multiplying an input with a number is multiplying what the matrices make of it.
void CpuBackend::activate_row(int64_t slot, float* gate, float* up, int64_t n) {
  const bool gated = is_gated(call_.params.activation);
  if (call_.params.weight_on_input) {
    if (gated) kernels_.scale(gate, scratch_.slot_weights[slot], n);
    kernels_.scale(up, scratch_.slot_weights[slot], n);
  }
  kernels_.activate(call_.params.activation, gated ? gate : up, up, n, gate);
}

/// Columns [256 strip, 256 strip + n) of a slot's hidden row.
void CpuBackend::store_hidden(const float* hidden, int64_t slot, int64_t strip, int64_t n) {
  const int64_t width = call_.width();
  if (call_.strip_hidden)
    kernels_.quantise(hidden, n, scratch_.hidden_strips + slot * Scratch::strips_of(width) + strip);
  if (call_.float_hidden) std::copy_n(hidden, n, scratch_.hidden_floats + slot * width + strip * kStripInputs);
}

void CpuBackend::down(std::span<const int32_t> numbers) {
  const PackedMatrix& shape = call_.sample->down;
  const int64_t panels_each = std::min(kTilePanels, ceil_div(shape.panels(), 4 * int64_t{threads()}));
  pool_->run(ceil_div(shape.panels(), panels_each), [&](int64_t task, int thread) {
    const int64_t panel = task * panels_each, panels = std::min(panels_each, shape.panels() - panel);
    const int64_t column = panel * kPanelWidth, n = std::min(panels * kPanelWidth, shape.n - column);
    float* tile = of_thread(scratch_.tiles, 2 * Scratch::kTileFloats, thread);
    for (const int32_t number : numbers) {
      const ExpertGroup group = group_of(number);
      for (int64_t first = 0; first < group.rows; first += kRowBlock) {
        const int64_t slot = group.first_slot + first, rows = std::min(kRowBlock, group.rows - first);
        multiply_panels(call_.hidden.slice(slot, rows), group.expert->down, panel, panels,
                        part_of(group.expert->down_bias, column), {tile, kStripInputs}, thread);
        for (int64_t r = 0; r < rows; ++r)
          kernels_.add_scaled(call_.out.row(scratch_.grouped[slot + r]) + column, output_weight(slot + r),
                              tile + r * kStripInputs, n);
      }
    }
  });
}

void CpuBackend::down_apart(std::span<const int32_t> numbers) {
  const PackedMatrix& shape = call_.sample->down;
  const int64_t width = call_.out.width;
  const int64_t panels_each = std::min(kTilePanels, ceil_div(shape.panels(), 4 * int64_t{threads()}));
  const int64_t tasks_each = ceil_div(shape.panels(), panels_each);
  pool_->run(static_cast<int64_t>(numbers.size()) * tasks_each, [&](int64_t task, int thread) {
    const ExpertGroup group = group_of(numbers[static_cast<size_t>(task / tasks_each)]);
    const int64_t panel = task % tasks_each * panels_each, panels = std::min(panels_each, shape.panels() - panel);
    const int64_t column = panel * kPanelWidth, n = std::min(panels * kPanelWidth, shape.n - column);
    float* tile = of_thread(scratch_.tiles, 2 * Scratch::kTileFloats, thread);
    for (int64_t first = 0; first < group.rows; first += kRowBlock) {
      const int64_t slot = group.first_slot + first, rows = std::min(kRowBlock, group.rows - first);
      multiply_panels(call_.hidden.slice(slot, rows), group.expert->down, panel, panels,
                      part_of(group.expert->down_bias, column), {tile, kStripInputs}, thread);
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(tile + r * kStripInputs, n, scratch_.apart + (slot + r) * width + column);
    }
  });
}

}  // namespace colibri::compute
