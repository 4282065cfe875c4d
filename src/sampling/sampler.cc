#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>

namespace colibri::sampling {
namespace {

constexpr int32_t kMaxTopK = 1 << 30;

Status check(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return Error{ErrorCode::kUsage, std::string(name) + " is " + std::to_string(value) + ", expected " +
                                      std::to_string(low) + " to " + std::to_string(high)};
}

// exp from + * and constants alone, so that no library's last bit decides a draw. x <= 0; relative error below 1e-14.
double exp_of_negative(double x) {
  if (x < -700) return 0;
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const double n = std::floor(x * 1.44269504088896338700 + 0.5);
  const double r = (x - n * kLn2High) - n * kLn2Low;
  constexpr std::array<double, 12> kInverseFactorials = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                                                         1.0 / 40320,     1.0 / 5040,     1.0 / 720,     1.0 / 120,
                                                         1.0 / 24,        1.0 / 6,        1.0 / 2,       1.0};
  double sum = 0;
  for (const double c : kInverseFactorials) sum = sum * r + c;
  const double scale = std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
  return (1.0 + sum * r) * scale;
}

uint64_t splitmix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

Status validate(const SamplingParams& p) {
  COLIBRI_TRY(check("temperature", p.temperature, 0, 100));
  COLIBRI_TRY(check("top_k", p.top_k, 0, kMaxTopK));
  COLIBRI_TRY(check("top_p", p.top_p, 0, 1));
  COLIBRI_TRY(check("min_p", p.min_p, 0, 1));
  COLIBRI_TRY(check("repetition_penalty", p.repetition_penalty, 0.01, 100));
  COLIBRI_TRY(check("presence_penalty", p.presence_penalty, -2, 2));
  COLIBRI_TRY(check("frequency_penalty", p.frequency_penalty, -2, 2));
  for (const auto& [id, bias] : p.logit_bias) {
    COLIBRI_TRY(check("a token of logit_bias", id, 0, INT32_MAX));
    COLIBRI_TRY(check("logit_bias", bias, -100, 100));
  }
  return {};
}

TokenId argmax(std::span<const float> logits) {
  TokenId best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) continue;
    if (best < 0 || logits[i] > logits[static_cast<size_t>(best)]) best = static_cast<TokenId>(i);
  }
  return best;
}

Sampler::Sampler(SamplingParams params, int32_t vocab_size) : params_(std::move(params)), vocab_size_(vocab_size) {
  uint64_t seed = params_.seed;
  for (uint64_t& word : state_) word = splitmix64(seed);
  if (params_.temperature == 0) return;  // greedy needs no tables
  answer_counts_.resize(static_cast<size_t>(vocab_size));
  seen_.resize(static_cast<size_t>(vocab_size));
  bias_.resize(static_cast<size_t>(vocab_size));
  candidates_.reserve(static_cast<size_t>(vocab_size));
  for (const auto& [id, bias] : params_.logit_bias)
    if (id >= 0 && id < vocab_size) bias_[static_cast<size_t>(id)] = bias;
}

void Sampler::observe_prompt(std::span<const TokenId> prompt) {
  for (const TokenId id : prompt)
    if (id >= 0 && static_cast<size_t>(id) < seen_.size()) seen_[static_cast<size_t>(id)] = true;
}

Result<TokenId> Sampler::sample(std::span<const float> logits) {
  logits = logits.first(std::min(logits.size(), static_cast<size_t>(vocab_size_)));
  TokenId chosen = -1;
  if (params_.temperature == 0) {
    chosen = argmax(logits);
    if (chosen >= 0 && !std::isfinite(logits[static_cast<size_t>(chosen)])) chosen = -1;
  } else {
    collect(logits);
    if (!candidates_.empty()) chosen = draw();
  }
  if (chosen < 0)
    return Error{ErrorCode::kFailed,
                 "the logits hold no finite value; validate the model, and report this if it is whole"};
  if (!seen_.empty()) {
    seen_[static_cast<size_t>(chosen)] = true;
    ++answer_counts_[static_cast<size_t>(chosen)];
  }
  return chosen;
}

// Finite logits after bias and penalties, in ascending id, divided by the temperature.
void Sampler::collect(std::span<const float> logits) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) continue;
    double value = static_cast<double>(logits[i]) + bias_[i];
    if (seen_[i]) value = value > 0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
    if (const int32_t n = answer_counts_[i]; n > 0) value -= params_.presence_penalty + params_.frequency_penalty * n;
    candidates_.push_back({value / params_.temperature, static_cast<TokenId>(i)});
  }
}

// Filters the candidates and draws one. The kept ones are in a fixed order, so the sum does not depend on the library.
TokenId Sampler::draw() {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  };
  const auto top_k = static_cast<size_t>(params_.top_k);
  if (top_k > 0 && top_k < candidates_.size()) {
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(top_k);
    std::nth_element(candidates_.begin(), end - 1, candidates_.end(), better);
    candidates_.resize(top_k);
    std::sort(candidates_.begin(), candidates_.end(), better);
  }
  const double best = std::min_element(candidates_.begin(), candidates_.end(), better)->value;
  for (Candidate& c : candidates_) c.value = exp_of_negative(c.value - best);
  if (params_.top_p < 1) keep_nucleus(better);
  std::erase_if(candidates_, [this](const Candidate& c) { return c.value < params_.min_p; });  // the largest is 1

  double total = 0;
  for (const Candidate& c : candidates_) total += c.value;
  double left = static_cast<double>(next_random() >> 11) * 0x1.0p-53 * total;
  for (const Candidate& c : candidates_) {
    left -= c.value;
    if (left < 0) return c.id;
  }
  return candidates_.back().id;  // rounding used up the last share
}

// Keeps the smallest set whose share reaches top_p, at least one: takes the best from a heap until it is enough.
template <typename Better>
void Sampler::keep_nucleus(Better better) {
  double total = 0;
  for (const Candidate& c : candidates_) total += c.value;
  const auto worse = [&better](const Candidate& a, const Candidate& b) { return better(b, a); };
  std::make_heap(candidates_.begin(), candidates_.end(), worse);
  auto end = candidates_.end();
  double sum = 0;
  do {
    std::pop_heap(candidates_.begin(), end, worse);
    --end;
    sum += end->value;
  } while (end != candidates_.begin() && sum < params_.top_p * total);
  candidates_.erase(candidates_.begin(), end);
  std::reverse(candidates_.begin(), candidates_.end());  // best first
}

// xoshiro256** 1.0 by Blackman and Vigna (public domain description).
uint64_t Sampler::next_random() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

}  // namespace colibri::sampling
