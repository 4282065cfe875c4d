// Pacing: how much prompt is computed between two tokens of those who are answered already.
//
// While nobody decodes, a prefill pass takes as many rows as the plan allows and runs through. While somebody does, a
// step is a decode pass and then a slice of the prefill pass: a few layers of a few hundred rows, which should take no
// longer than `prefill_share` times the decode pass: more when prompts pile up, or they would pile up for ever. What a
// layer takes with so many rows is measured as it happens.
// This steers time only, never a result. Thread-safety: the engine's thread only. Allocates nothing after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace colibri::engine {

class Pacing {
 public:
  /// `max_rows`: of a prefill pass.
  Pacing(double prefill_share, int64_t max_rows);

  /// So many rows of prompts are still to be computed, by whoever has been let in or waits.
  void waiting(int64_t rows, int n_layers);
  /// A decode pass took so long.
  void decoded(double seconds);
  /// A layer of a prefill pass with so many rows took so long.
  void layer_ran(int64_t rows, double seconds);

  /// Rows of the next prefill pass.
  int64_t pass_rows(bool anyone_decodes) const;
  /// One more layer of such a pass fits into the slice that has taken `spent` so far.
  bool fits(int64_t rows, double spent) const;
  /// What a row of a long prompt takes in all layers, by what was measured; 0 until then.
  double seconds_per_row(int n_layers) const;

 private:
  struct Size {
    int64_t rows = 0;
    double seconds = 0;  ///< of a layer with so many rows
    bool measured = false;
  };
  double slice() const { return prefill_share_ * decode_seconds_ * pressure_; }
  size_t size_of(int64_t rows) const;
  double expected(int64_t rows) const;

  double prefill_share_;
  double decode_seconds_ = 0;
  double pressure_ = 1;
  std::vector<Size> sizes_;  // ascending
};

}  // namespace colibri::engine
