#include "store/cache_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace colibri::store {
namespace {

constexpr auto kHalfLife = static_cast<double>(kHalfLifeTokens);
constexpr double kNever = -std::numeric_limits<double>::infinity();

// log2(2^a + 2^b)
double log2_of_sum(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return low == kNever ? high : high + std::log2(1 + std::exp2(low - high));
}

// Mean of 2^(-age / half-life) over ages 0 .. tokens - 1: the rows of a long step did not all come at its end.
double mean_fading(int64_t tokens) {
  const auto n = static_cast<double>(std::max<int64_t>(tokens, 1));
  return (1 - std::exp2(-n / kHalfLife)) / (n * (1 - std::exp2(-1 / kHalfLife)));
}

}  // namespace

CachePolicy::CachePolicy(PolicyKind kind, int64_t lfu_threshold, CacheShape shape)
    : kind_(kind),
      lfu_threshold_(lfu_threshold),
      n_experts_(static_cast<size_t>(shape.n_experts)),
      slot_class_(std::move(shape.slot_class)),
      layers_of_(shape.slots.size()),
      floors_(slot_class_.size()),
      sizes_(slot_class_.size()) {
  COLIBRI_CHECK(slot_class_.size() == static_cast<size_t>(shape.n_layers));
  const size_t count = slot_class_.size() * n_experts_;
  keys_.assign(count, {kind == PolicyKind::kAuto ? kNever : 0, 0});
  log_heat_.assign(count, kNever);
  heaps_.assign(count, 0);
  position_.assign(count, -1);
  for (int layer = 0; layer < shape.n_layers; ++layer)
    layers_of_[static_cast<size_t>(slot_class_[static_cast<size_t>(layer)])].push_back(layer);
  for (size_t layer = 0; layer < slot_class_.size(); ++layer) {
    const auto c = static_cast<size_t>(slot_class_[layer]);
    const double fair = static_cast<double>(shape.slots[c]) / static_cast<double>(layers_of_[c].size());
    floors_[layer] = static_cast<int32_t>(kFloorOfFairShare * std::min(fair, static_cast<double>(n_experts_)));
  }
}

void CachePolicy::begin_step(int64_t tokens) {
  now_ += tokens;
  step_weight_ = mean_fading(tokens);
}

void CachePolicy::use(int layer, int expert, int64_t rows) {
  if (rows <= 0) return;
  const size_t i = index(layer, expert);
  const auto uses = static_cast<double>(rows);
  log_heat_[i] = log2_of_sum(log_heat_[i], std::log2(uses * step_weight_) + static_cast<double>(now_) / kHalfLife);
  ++stamp_;
  switch (kind_) {
    case PolicyKind::kAuto:
      keys_[i] = {log_heat_[i], stamp_};
      break;
    case PolicyKind::kLru:
      keys_[i] = {stamp_, 0};
      break;
    case PolicyKind::kLfu:
      keys_[i] = {keys_[i].value + uses, stamp_};
      break;
  }
  if (position_[i] >= 0) sift_down(layer, position_[i]);  // a use never lessens the key
}

// ---- heaps

bool CachePolicy::goes_before(int layer, int32_t a, int32_t b) const {
  const Key &first = keys_[index(layer, a)], &second = keys_[index(layer, b)];
  if (first < second) return true;
  return !(second < first) && a < b;  // never used, both of them: any order will do, but always the same
}

void CachePolicy::place(int layer, int32_t position, int32_t expert) {
  heap_of(layer)[position] = expert;
  position_[index(layer, expert)] = position;
}

void CachePolicy::sift_up(int layer, int32_t position) {
  const int32_t expert = heap_of(layer)[position];
  while (position > 0) {
    const int32_t parent = (position - 1) / 2;
    if (!goes_before(layer, expert, heap_of(layer)[parent])) break;
    place(layer, position, heap_of(layer)[parent]);
    position = parent;
  }
  place(layer, position, expert);
}

void CachePolicy::sift_down(int layer, int32_t position) {
  const int32_t* heap = heap_of(layer);
  const int32_t expert = heap[position], size = sizes_[static_cast<size_t>(layer)];
  for (;;) {
    int32_t child = 2 * position + 1;
    if (child + 1 < size && goes_before(layer, heap[child + 1], heap[child])) ++child;
    if (child >= size || !goes_before(layer, heap[child], expert)) break;
    place(layer, position, heap[child]);
    position = child;
  }
  place(layer, position, expert);
}

void CachePolicy::insert(int layer, int expert) {
  COLIBRI_CHECK(position_[index(layer, expert)] < 0);
  const int32_t last = sizes_[static_cast<size_t>(layer)]++;
  place(layer, last, expert);
  sift_up(layer, last);
}

void CachePolicy::erase(int layer, int expert) {
  const int32_t hole = std::exchange(position_[index(layer, expert)], -1);
  COLIBRI_CHECK(hole >= 0);
  const int32_t last = --sizes_[static_cast<size_t>(layer)];
  if (hole == last) return;
  place(layer, hole, heap_of(layer)[last]);
  sift_up(layer, hole);
  sift_down(layer, hole);
}

// ---- choices

CachePolicy::Turn CachePolicy::turn(int candidate_layer, int layer, const StepPosition& position) const {
  if (kind_ != PolicyKind::kAuto) return Turn::kNormal;
  if (position.sweeping && candidate_layer <= position.layer) return Turn::kFirst;
  const auto c = static_cast<size_t>(candidate_layer);
  return candidate_layer == layer || sizes_[c] > floors_[c] ? Turn::kNormal : Turn::kLast;
}

CachePolicy::Key CachePolicy::key_seen_from(const StepPosition& position, int layer, int32_t expert) const {
  Key key = keys_[index(layer, expert)];
  if (kind_ != PolicyKind::kAuto) return key;
  const int layers_until = (layer - position.layer - 1 + n_layers()) % n_layers();
  key.value -= kPassedBits * layers_until / n_layers();
  return key;
}

std::optional<int> CachePolicy::victim(int layer, const StepPosition& position) const {
  std::optional<int> best;
  Key best_key;
  Turn best_turn = Turn::kLast;
  for (const int candidate_layer : layers_of_[static_cast<size_t>(slot_class_[static_cast<size_t>(layer)])]) {
    if (sizes_[static_cast<size_t>(candidate_layer)] == 0) continue;
    const int32_t expert = heaps_[index(candidate_layer, 0)];
    const Turn its_turn = turn(candidate_layer, layer, position);
    const Key key = key_seen_from(position, candidate_layer, expert);
    if (best && (its_turn > best_turn || (its_turn == best_turn && !(key < best_key)))) continue;
    best = static_cast<int>(index(candidate_layer, expert));
    best_key = key;
    best_turn = its_turn;
  }
  return best;
}

bool CachePolicy::worth_more(int candidate, int victim) const {
  const auto c = static_cast<size_t>(candidate), v = static_cast<size_t>(victim);
  if (kind_ == PolicyKind::kLfu && keys_[v].value > static_cast<double>(lfu_threshold_)) return false;
  return log_heat_[c] > log_heat_[v];
}

float CachePolicy::heat(int layer, int expert) const {
  return static_cast<float>(std::exp2(log_heat_[index(layer, expert)] - static_cast<double>(now_) / kHalfLife));
}

void CachePolicy::warm(int layer, int expert, float heat) {
  const size_t i = index(layer, expert);
  COLIBRI_CHECK(stamp_ == 0);
  if (!(heat > 0) || !std::isfinite(heat)) return;
  log_heat_[i] = std::log2(static_cast<double>(heat)) + static_cast<double>(now_) / kHalfLife;
  switch (kind_) {
    case PolicyKind::kAuto:
      keys_[i] = {log_heat_[i], 0};
      break;
    case PolicyKind::kLru:
      keys_[i] = {0, static_cast<double>(heat)};  // older than all that this run uses, the hottest last
      break;
    case PolicyKind::kLfu:
      keys_[i] = {static_cast<double>(heat), 0};
      break;
  }
  if (position_[i] >= 0) sift_down(layer, position_[i]);
}

}  // namespace colibri::store
