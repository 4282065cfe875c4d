#include "sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "sampling/exponential.h"

namespace colibri::sampling {
namespace {

struct Bound {
  const char* name;
  double SamplingParams::*value;
  double low;
  double high;
  bool low_is_allowed;
};

constexpr Bound kBounds[] = {
    {"temperature", &SamplingParams::temperature, 0, 100, true},
    {"top_p", &SamplingParams::top_p, 0, 1, true},
    {"min_p", &SamplingParams::min_p, 0, 1, true},
    {"repetition_penalty", &SamplingParams::repetition_penalty, 0, 100, false},
    {"presence_penalty", &SamplingParams::presence_penalty, -100, 100, true},
    {"frequency_penalty", &SamplingParams::frequency_penalty, -100, 100, true},
};

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// One step of splitmix64, which turns any seed into a good state.
uint64_t split_mix(uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

Status validate(const SamplingParams& params) {
  for (const Bound& bound : kBounds) {
    const double value = params.*bound.value;
    const bool in_range = (bound.low_is_allowed ? value >= bound.low : value > bound.low) && value <= bound.high;
    if (in_range) continue;
    std::string message = bound.name;
    message.append(" is ")
        .append(shown(value))
        .append(bound.low_is_allowed ? "; it must be from " : "; it must be above ");
    message.append(shown(bound.low)).append(bound.low_is_allowed ? " to " : ", at most ").append(shown(bound.high));
    return Error{ErrorCode::kUsage, message};
  }
  if (params.top_k < 0) {
    return Error{ErrorCode::kUsage, "top_k is " + std::to_string(params.top_k) + "; it must be 0 (off) or more"};
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (std::isfinite(bias)) continue;
    std::string message = "logit_bias of token ";
    return Error{ErrorCode::kUsage, message.append(std::to_string(id)).append(" is not a finite number")};
  }
  return {};
}

TokenId argmax(std::span<const float> logits) {
  TokenId best = -1;
  float largest = kNever;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > largest || (best < 0 && !std::isnan(logits[i]))) {
      best = static_cast<TokenId>(i);
      largest = logits[i];
    }
  }
  return best;
}

TokenId argmax(std::span<const float> logits, const TokenMask& allowed) {
  TokenId best = -1;
  float largest = kNever;
  allowed.for_each([&](TokenId id) {
    const auto i = static_cast<size_t>(id);
    if (i >= logits.size() || std::isnan(logits[i]) || (best >= 0 && !(logits[i] > largest))) return;
    best = id;
    largest = logits[i];
  });
  return best;
}

Sampler::Sampler(SamplingParams params, int32_t vocab_size) : params_(std::move(params)), vocab_size_(vocab_size) {
  uint64_t seed = params_.seed;
  for (uint64_t& word : state_) word = split_mix(seed);
  const auto size = static_cast<size_t>(vocab_size);
  has_penalties_ =
      params_.repetition_penalty != 1.0 || params_.presence_penalty != 0.0 || params_.frequency_penalty != 0.0;
  if (params_.temperature == 0) return;
  if (has_penalties_) answer_counts_.resize(size);
  if (has_penalties_) seen_.resize(size);
  if (!params_.logit_bias.empty()) bias_.resize(size);
  for (const auto& [id, bias] : params_.logit_bias) {
    if (id >= 0 && id < vocab_size) bias_[static_cast<size_t>(id)] += bias;
  }
}

void Sampler::observe_prompt(std::span<const TokenId> prompt) {
  if (seen_.empty()) return;
  for (const TokenId id : prompt) {
    if (id >= 0 && id < vocab_size_) seen_[static_cast<size_t>(id)] = true;
  }
}

Result<TokenId> Sampler::sample(std::span<const float> logits, SamplerScratch& scratch, const TokenMask* allowed) {
  logits = logits.first(std::min(logits.size(), static_cast<size_t>(vocab_size_)));
  TokenId id = -1;
  if (params_.temperature == 0) {
    id = allowed ? argmax(logits, *allowed) : argmax(logits);
    if (id >= 0 && logits[static_cast<size_t>(id)] == kNever) id = -1;
  } else if (const size_t n = collect(logits, allowed, scratch.candidates_); n > 0) {
    id = draw(n, scratch);
  }
  if (id < 0) {
    return Error{ErrorCode::kFailed, allowed ? "no token can be sampled: no logit of an allowed token is a number"
                                             : "no token can be sampled: no logit is a number"};
  }
  if (!seen_.empty()) {
    seen_[static_cast<size_t>(id)] = true;
    ++answer_counts_[static_cast<size_t>(id)];
  }
  return id;
}

// The order of probability.
bool Sampler::before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

float Sampler::adjusted(TokenId id, double logit) const {
  const auto i = static_cast<size_t>(id);
  if (!bias_.empty()) logit += bias_[i];
  if (has_penalties_ && seen_[i]) {
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    const int32_t count = answer_counts_[i];
    if (count > 0) logit -= params_.presence_penalty + params_.frequency_penalty * count;
  }
  return static_cast<float>(std::clamp<double>(logit, -kLargest, kLargest));
}

// Fills `candidates`, in the order of the ids, with what can be drawn: every allowed id whose logit is a number.
// Returns how many.
size_t Sampler::collect(std::span<const float> logits, const TokenMask* allowed,
                        std::vector<Candidate>& candidates) const {
  const bool plain = bias_.empty() && !has_penalties_;
  size_t n = 0;
  const auto add = [&](TokenId id) {
    const auto i = static_cast<size_t>(id);
    if (std::isnan(logits[i]) || logits[i] == kNever) return;
    const float logit = std::min(logits[i], kLargest);
    candidates[n++] = {plain ? logit : adjusted(id, logit), id};
  };
  if (allowed) {
    allowed->for_each([&](TokenId id) {
      if (static_cast<size_t>(id) < logits.size()) add(id);
    });
  } else {
    for (size_t i = 0; i < logits.size(); ++i) add(static_cast<TokenId>(i));
  }
  return n;
}

// Sums and the draw itself walk over the candidates in an order that is defined (by id or by probability), never in one
// that a library's selection algorithm happened to leave.
TokenId Sampler::draw(size_t n, SamplerScratch& scratch) {
  const std::vector<Candidate>& candidates = scratch.candidates_;
  n = keep_top_k(n, scratch);
  const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(n);
  const float largest = std::min_element(candidates.begin(), end, before)->logit;
  n = keep_top_p(n, largest, scratch);
  n = keep_min_p(n, largest, scratch);
  double left = static_cast<double>(next_random() >> 11) * 0x1.0p-53 * weigh(n, largest, scratch);
  for (size_t i = 0; i + 1 < n; ++i) {
    left -= scratch.weights_[i];
    if (left < 0) return candidates[i].id;
  }
  return candidates[n - 1].id;
}

// In proportion to the probability; the most probable has 1.
double Sampler::weight(const Candidate& candidate, float largest) const {
  return exp_of_negative((static_cast<double>(candidate.logit) - static_cast<double>(largest)) / params_.temperature);
}

// Fills the weights of the first n candidates; returns their sum.
double Sampler::weigh(size_t n, float largest, SamplerScratch& scratch) const {
  for (size_t i = 0; i < n; ++i) scratch.weights_[i] = weight(scratch.candidates_[i], largest);
  double total = 0;
  for (size_t i = 0; i < n; ++i) total += scratch.weights_[i];
  return total;
}

size_t Sampler::keep_top_k(size_t n, SamplerScratch& scratch) const {
  const auto k = static_cast<size_t>(params_.top_k);
  if (k == 0 || k >= n) return n;
  const auto begin = scratch.candidates_.begin(), middle = begin + static_cast<std::ptrdiff_t>(k);
  const auto end = begin + static_cast<std::ptrdiff_t>(n);
  if (k <= 1024) {  // a heap of k, which most candidates fail to enter
    std::partial_sort(begin, middle, end, before);
  } else {
    std::nth_element(begin, middle, end, before);
    std::sort(begin, middle, before);
  }
  return k;
}

// Orders only as far as needed: blocks of the most probable ones, each several times as large as all before it.
size_t Sampler::keep_top_p(size_t n, float largest, SamplerScratch& scratch) const {
  if (params_.top_p >= 1.0) return n;
  const auto begin = scratch.candidates_.begin();
  const double wanted = params_.top_p * weigh(n, largest, scratch);
  double sum = 0;
  for (size_t done = 0, block = 64; done < n; block *= 4) {
    const size_t end = std::min(n, done + block);
    const auto from = begin + static_cast<std::ptrdiff_t>(done), to = begin + static_cast<std::ptrdiff_t>(end);
    if (end < n) std::nth_element(from, to, begin + static_cast<std::ptrdiff_t>(n), before);
    std::sort(from, to, before);
    for (; done < end; ++done) {
      sum += weight(scratch.candidates_[done], largest);
      if (sum >= wanted) return done + 1;
    }
  }
  return n;
}

size_t Sampler::keep_min_p(size_t n, float largest, SamplerScratch& scratch) const {
  if (params_.min_p <= 0.0) return n;
  const auto begin = scratch.candidates_.begin();
  const auto end = std::remove_if(begin, begin + static_cast<std::ptrdiff_t>(n), [&](const Candidate& candidate) {
    return weight(candidate, largest) < params_.min_p;
  });
  return static_cast<size_t>(end - begin);
}

// xoshiro256** (Blackman and Vigna).
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
