// The scratch memory of a CPU backend: one definition of its parts, from which both its size and its pointers follow.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compute/backend.h"
#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/tiling.h"

namespace colibri::compute {

struct Scratch {
  // What rows are made of. Kernels find rows through lists of pointers, so that nothing is copied to group them.
  ActivationStrip* strips = nullptr;             ///< [max_rows, strips of the widest input]
  const float** float_rows = nullptr;            ///< [row_pointers]
  const ActivationStrip** strip_rows = nullptr;  ///< [row_pointers]

  // Experts. An assignment is a row with one of its experts; its place among all, ordered by expert, is its slot.
  ActivationStrip* hidden_strips = nullptr;             ///< [assignments, strips of max_expert_width]
  float* hidden_floats = nullptr;                       ///< [assignments, max_expert_width]
  const ActivationStrip** hidden_strip_rows = nullptr;  ///< [assignments]
  const float** hidden_float_rows = nullptr;            ///< [assignments]
  float* apart = nullptr;                               ///< [apart assignments, max_expert_inputs]: outputs
  float* slot_weights = nullptr;                        ///< [assignments]: what the slot's output is multiplied with
  int32_t* grouped = nullptr;                           ///< [assignments]: the slot's row
  int32_t* group_end = nullptr;                         ///< [n_experts]: end of each expert's slots
  int32_t* active = nullptr;                            ///< [n_experts]: experts that have rows

  // Per thread.
  float* tiles = nullptr;         ///< outputs of up to kRowBlock rows and kTilePanels panels, twice
  float* sums = nullptr;          ///< ProductJob::sums of kRowBlock rows
  TileScratch* matrix = nullptr;  ///< ProductJob::tiles
  float* packed = nullptr;        ///< a float tile's inputs
  float* expanded = nullptr;      ///< a strip of a quantised panel as floats
  // Per thread: a block of rows of one group of multiply_groups.
  ActivationStrip* group_strips = nullptr;             ///< [group_rows, strips of max_group_inputs]
  const float** group_float_rows = nullptr;            ///< [group_rows]
  const ActivationStrip** group_strip_rows = nullptr;  ///< [group_rows]
  float* attention = nullptr;
  float* index = nullptr;  ///< IndexJob::scratch

  float* index_scores = nullptr;  ///< [threads, score_floats]: of the rows that are looked at together

  static_assert(kRowBlock <= kMaxTiledRows);
  static constexpr int64_t kTileFloats = kRowBlock * kTilePanels * kPanelWidth;
  static constexpr int64_t kSumFloats = kRowBlock * kMaxDotPanels * kPanelWidth;
  static constexpr int64_t kExpandedFloats = int64_t{kStripInputs} * kPanelWidth;

  static int64_t strips_of(int64_t inputs) { return ceil_div(inputs, kStripInputs); }
  static int64_t widest_input(const BackendLimits& l) {
    return std::max({l.max_inputs, l.max_expert_inputs, l.max_expert_width, l.max_group_inputs});
  }
  static int64_t assignments(const BackendLimits& l) { return l.n_experts > 0 ? l.max_rows * l.top_k : 0; }
  static int64_t apart_assignments(const BackendLimits& l) {
    return l.n_experts > 0 ? std::min(l.max_apart_rows, l.max_rows) * l.top_k : 0;
  }
  static int64_t row_pointers(const BackendLimits& l) { return std::max(l.max_rows, assignments(l)); }
  static int64_t group_rows(const BackendLimits& l) {
    return l.max_group_inputs > 0 ? std::min(kRowBlock, l.max_rows) : 0;
  }
  static int64_t packed_floats(const BackendLimits& l) { return kMaxTileRows * widest_input(l); }
  static int64_t attention_floats(const BackendLimits& l) {
    return l.key_dim > 0 ? attention_scratch_floats(l.key_dim, l.value_dim) : 0;
  }
  static int64_t index_floats(const BackendLimits& l) {
    return l.index_heads > 0 ? index_scratch_floats(l.index_heads, l.index_key_dim) : 0;
  }
  static int64_t score_floats(const BackendLimits& l) { return ceil_div(l.index_positions, kKeyTile) * kKeyTile; }

  /// Calls take(count, bytes each) for each part, in order; it returns where the part lies (or null when only
  /// counting).
  template <typename Take>
  static Scratch lay_out(const BackendLimits& l, int threads, Take take) {
    const int64_t n = assignments(l), strips = l.quantised_experts ? n : 0, floats = l.float_experts ? n : 0;
    Scratch s;
    const auto part = [&take](auto*& pointer, int64_t count) {
      using Element = std::remove_reference_t<decltype(*pointer)>;
      pointer = static_cast<Element*>(take(count, static_cast<int64_t>(sizeof(Element))));
    };
    part(s.strips, l.max_rows * strips_of(widest_input(l)));
    part(s.float_rows, row_pointers(l));
    part(s.strip_rows, row_pointers(l));
    part(s.hidden_strips, strips * strips_of(l.max_expert_width));
    part(s.hidden_floats, floats * l.max_expert_width);
    part(s.hidden_strip_rows, n);
    part(s.hidden_float_rows, n);
    part(s.apart, apart_assignments(l) * l.max_expert_inputs);
    part(s.slot_weights, n);
    part(s.grouped, n);
    part(s.group_end, l.n_experts);
    part(s.active, l.n_experts);
    part(s.tiles, n > 0 ? threads * 2 * kTileFloats : 0);
    part(s.sums, threads * kSumFloats);
    part(s.matrix, threads);
    part(s.packed, threads * packed_floats(l));
    part(s.expanded, threads * kExpandedFloats);
    part(s.group_strips, threads * group_rows(l) * strips_of(l.max_group_inputs));
    part(s.group_float_rows, threads * group_rows(l));
    part(s.group_strip_rows, threads * group_rows(l));
    part(s.attention, threads * attention_floats(l));
    part(s.index, threads * index_floats(l));
    part(s.index_scores, threads * score_floats(l));
    return s;
  }
};

}  // namespace colibri::compute
