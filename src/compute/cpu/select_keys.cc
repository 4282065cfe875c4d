// Which keys a sparse attention looks at: scores by the kernels, then the largest of each row.
//
// As many rows as threads are looked at together, because their scores have to be kept: first all threads score, each
// task some keys of a row, then they choose, each task a row.
#include <cstring>

#include "base/check.h"
#include "compute/cpu/cpu_backend.h"
#include "compute/cpu/kv_tiles.h"

namespace colibri::compute {
namespace {

constexpr int64_t kKeysPerTask = 16 * kKeyTile;

/// A number that orders scores as wanted: unsigned, larger first, NaN last. Scores are never -0.
uint32_t order_of(float score) {
  if (score != score) return 0;
  uint32_t bits;
  std::memcpy(&bits, &score, sizeof bits);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The k-th largest, and how many of its equals are among the k.
struct Threshold {
  uint32_t order = 0;
  int64_t equals = 0;
};

/// Digit by digit, from the highest: each pass counts the scores that begin with the digits found so far by their next.
/// REQUIRES: 1 <= k <= n.
Threshold find_threshold(const float* scores, int64_t n, int64_t k) {
  constexpr int kBits = 11, kDigits = 1 << kBits;
  Threshold t;
  for (int shift = 32; shift > 0;) {
    const uint32_t found = shift == 32 ? 0 : t.order >> shift;
    const int next = std::max(0, shift - kBits);
    int32_t counts[kDigits] = {};
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t order = order_of(scores[i]);
      if (order >> shift == found) ++counts[order >> next & ((1u << (shift - next)) - 1)];
    }
    uint32_t digit = kDigits - 1;
    while (counts[digit] < k) k -= counts[digit--];
    t.order |= digit << next;
    shift = next;
  }
  t.equals = k;
  return t;
}

/// Bits of the first n positions; the others of `words` are 0.
void choose_first(int64_t n, uint64_t* words, int64_t n_words) {
  for (int64_t w = 0; w < n_words; ++w, n -= kKeyTile)
    words[w] = n >= kKeyTile ? ~uint64_t{0} : n > 0 ? (uint64_t{1} << n) - 1 : 0;
}

void choose_largest(const float* scores, int64_t n, int64_t k, uint64_t* words, int64_t n_words) {
  const Threshold threshold = find_threshold(scores, n, k);
  int64_t equals = threshold.equals;
  std::fill_n(words, n_words, uint64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t order = order_of(scores[i]);
    if (order < threshold.order || (order == threshold.order && equals-- <= 0)) continue;
    words[i / kKeyTile] |= uint64_t{1} << i % kKeyTile;
  }
}

}  // namespace

void CpuBackend::select_keys(Rows q, Rows weights, std::span<const AttentionSegment> segments, int64_t top_k,
                             KeySets chosen) {
  for (const AttentionSegment& s : segments) {
    const int64_t end = (s.first_position + s.n_rows) / s.rate;
    COLIBRI_CHECK(s.kv.kv_heads == 1 && end <= s.kv.capacity && end <= chosen.words_per_row * kKeyTile);
    COLIBRI_CHECK(s.kv.key_dim <= limits_.index_key_dim && weights.width <= limits_.index_heads && top_k > 0);
    COLIBRI_CHECK(q.width == weights.width * s.kv.key_dim && s.first_row + s.n_rows <= q.rows);
    COLIBRI_CHECK(weights.rows == q.rows && end <= limits_.index_positions);
    for (int64_t first = 0; first < s.n_rows; first += pool_->threads())
      select_rows(q, weights, s, first, std::min<int64_t>(pool_->threads(), s.n_rows - first), top_k, chosen);
  }
}

void CpuBackend::select_rows(Rows q, Rows weights, const AttentionSegment& s, int64_t first, int64_t n, int64_t top_k,
                             KeySets chosen) {
  const int64_t positions = Scratch::score_floats(limits_);
  const auto visible = [&](int64_t r) { return (s.first_position + first + r + 1) / s.rate; };  // to the r-th of these
  const int64_t parts = visible(n - 1) > top_k ? ceil_div(visible(n - 1), kKeysPerTask) : 0;
  pool_->run(n * parts, [&](int64_t task, int thread) {
    const int64_t r = task / parts, row = s.first_row + first + r;
    IndexJob job;
    job.kv = tiles_of(s.kv, 0);
    job.q = q.row(row);
    job.weights = weights.row(row);
    job.heads = weights.width;
    job.first_key = task % parts * kKeysPerTask;
    job.end_key = std::min(visible(r), job.first_key + kKeysPerTask);
    job.scores = scratch_.index_scores + r * positions + job.first_key;
    job.scratch = of_thread(scratch_.index, Scratch::index_floats(limits_), thread);
    kernels_.index_scores(&job);
  });
  pool_->run(n, [&](int64_t r, int) {
    uint64_t* words = chosen.words + (s.first_row + first + r) * chosen.words_per_row;
    const int64_t keys = visible(r);
    if (keys <= top_k) return choose_first(keys, words, chosen.words_per_row);
    choose_largest(scratch_.index_scores + r * positions, keys, top_k, words, chosen.words_per_row);
  });
}

}  // namespace colibri::compute
