// Pacing: how much prompt is computed between two tokens of those who are answered already.
//
// While nobody decodes, a prefill pass takes as many rows as the plan allows and runs through. While somebody does, a
// step is a decode pass and then a slice of the prefill pass: some pieces of a layer, or some layers, of a few hundred
// rows, which should take no longer than `prefill_share` times the decode pass: more when prompts pile up, or they
// would pile up for ever, and when most of those who have a slot wait for their prompts. The more rows a pass has, the
// less often the experts' weights are read; small pieces let it have many and still stand back soon; but since nothing
// overtakes a pass, a layer may take only so many slices. What a piece takes with so many rows is measured as it
// happens. This steers time only, never a result. Thread-safety: the engine's thread only. Allocates nothing after
// construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scheduler.h"
#include "model/batch.h"

namespace colibri::engine {

class Pacing {
 public:
  /// `max_rows`: of a prefill pass. `parts`: in which the experts of a layer are computed while somebody decodes.
  Pacing(double prefill_share, int64_t max_rows, int parts);

  /// So many rows of prompts are still to be computed, by whoever has been let in or waits.
  void waiting(int64_t rows, SlotUse slots);
  /// A decode pass took so long.
  void decoded(double seconds);
  /// A piece of a prefill pass with so many rows took so long; of experts, one part or the `whole`.
  void ran(int64_t rows, model::Piece piece, bool whole, double seconds);
  /// All pieces of a prefill pass together.
  void pass_ran(int64_t rows, double seconds);

  /// Rows of the next prefill pass.
  int64_t pass_rows(bool anyone_decodes) const;
  /// One more piece of such a pass fits into the slice that has taken `spent` so far.
  bool fits(int64_t rows, model::Piece piece, double spent) const;
  /// What a row of a long prompt takes in all layers, by what was measured; 0 until then.
  double seconds_per_row() const;

 private:
  /// 0 until it was measured.
  struct Size {
    int64_t rows = 0;
    std::array<double, model::kPieces> seconds{};  ///< of a piece, or of a part of the experts
    double pass_seconds = 0;
  };
  double slice() const { return prefill_share_ * decode_seconds_ * pressure_; }
  double room(double longest) const;
  size_t size_of(int64_t rows) const;
  double expected(int64_t rows, model::Piece piece) const;
  double longest(int64_t rows) const;
  double layer(int64_t rows) const;

  double prefill_share_;
  int parts_;
  double decode_seconds_ = 0;
  double pressure_ = 1;
  std::vector<Size> sizes_;  // ascending
};

}  // namespace colibri::engine
