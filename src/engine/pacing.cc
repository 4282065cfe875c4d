#include "engine/pacing.h"

#include <algorithm>

namespace colibri::engine {
namespace {

constexpr int64_t kLeastRows = 32;  // fewer hardly take less time: they want nearly all experts too
constexpr double kNew = 0.25;       // weight of the newest measurement
// Where even the fewest rows take longer than a slice, some more cost little.
constexpr double kAboutTheSame = 1.3;

constexpr double kRelief = 4;        // seconds of prompts for which the share doubles
constexpr double kMostForSlots = 3;  // shares more, for slots that wait for their prompts
// Nothing overtakes a pass, so a layer takes two slices at most; or three times what it takes with the fewest rows, for
// with fewer the weights would be most of the work.
constexpr double kSlicesOfALayer = 2, kWorthIt = 3;

using model::Piece;

void blend(double& value, double sample) { value = value == 0 ? sample : value + kNew * (sample - value); }

size_t index(Piece piece) { return static_cast<size_t>(piece); }

}  // namespace

Pacing::Pacing(double prefill_share, int64_t max_rows, int parts) : prefill_share_(prefill_share), parts_(parts) {
  for (int64_t rows = std::min(kLeastRows, max_rows); rows < max_rows; rows *= 2) sizes_.push_back({rows, {}});
  sizes_.push_back({max_rows, {}});
}

// Squared: one prompt among many readers changes nothing, half of the slots doubles the share.
void Pacing::waiting(int64_t rows, SlotUse slots) {
  const double idle = static_cast<double>(slots.prefilling) / static_cast<double>(std::max<int64_t>(1, slots.decoding));
  pressure_ = 1 + std::min(kMostForSlots, idle * idle) + static_cast<double>(rows) * seconds_per_row() / kRelief;
}

void Pacing::decoded(double seconds) { blend(decode_seconds_, seconds); }

// The largest size that is not larger, so a size stands for the rows up to the next.
size_t Pacing::size_of(int64_t rows) const {
  const auto above =
      std::upper_bound(sizes_.begin(), sizes_.end(), rows, [](int64_t r, const Size& s) { return r < s.rows; });
  return static_cast<size_t>(std::max<int64_t>(0, above - sizes_.begin() - 1));
}

void Pacing::ran(int64_t rows, Piece piece, bool whole, double seconds) {
  const bool all_parts = whole && piece == Piece::kExperts;
  blend(sizes_[size_of(rows)].seconds[index(piece)], all_parts ? seconds / parts_ : seconds);
}

void Pacing::pass_ran(int64_t rows, double seconds) { blend(sizes_[size_of(rows)].pass_seconds, seconds); }

// What was not measured yet is taken from the nearest size that was: half of the time is the weights', half the rows'.
double Pacing::expected(int64_t rows, Piece piece) const {
  const Size& own = sizes_[size_of(rows)];
  const auto seconds = [piece](const Size& s) { return s.seconds[index(piece)]; };
  if (seconds(own) > 0) return seconds(own);
  const Size* nearest = nullptr;
  for (const Size& s : sizes_)
    if (seconds(s) > 0 && (nearest == nullptr || s.rows <= own.rows)) nearest = &s;
  if (nearest == nullptr) return 0;
  return seconds(*nearest) * (0.5 + 0.5 * static_cast<double>(own.rows) / static_cast<double>(nearest->rows));
}

double Pacing::longest(int64_t rows) const {
  return std::max({expected(rows, Piece::kMixer), expected(rows, Piece::kDense), expected(rows, Piece::kExperts)});
}

double Pacing::layer(int64_t rows) const {
  return expected(rows, Piece::kMixer) +
         std::max(expected(rows, Piece::kDense), parts_ * expected(rows, Piece::kExperts));
}

// Where a piece takes longer than a slice, others that cost little may go with it.
double Pacing::room(double longest) const { return std::max(slice(), kAboutTheSame * longest); }

int64_t Pacing::pass_rows(bool anyone_decodes) const {
  if (!anyone_decodes) return sizes_.back().rows;
  const double limit = room(longest(sizes_.front().rows));
  const double layer_limit = std::max(kSlicesOfALayer * limit, kWorthIt * layer(sizes_.front().rows));
  int64_t rows = sizes_.front().rows;
  for (const Size& size : sizes_) {
    const double seconds = longest(size.rows);
    if (seconds > 0 && seconds <= limit && layer(size.rows) <= layer_limit) rows = std::max(rows, size.rows);
  }
  return rows;
}

bool Pacing::fits(int64_t rows, Piece piece, double spent) const {
  return spent + expected(rows, piece) <= room(longest(rows));
}

double Pacing::seconds_per_row() const {
  double best = 0;
  for (const Size& size : sizes_) {
    const double per_row = size.pass_seconds / static_cast<double>(size.rows);
    if (per_row > 0 && (best == 0 || per_row < best)) best = per_row;
  }
  return best;
}

}  // namespace colibri::engine
