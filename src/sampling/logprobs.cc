#include "sampling/logprobs.h"

#include <algorithm>

#include "base/math.h"
#include "sampling/exponential.h"

namespace colibri::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// +infinity counts as the largest number, as in the sampler.
float finite(float logit) { return std::min(logit, std::numeric_limits<float>::max()); }

bool possible(float logit) { return logit > kNever; }  // false for NaN

}  // namespace

LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits) {
  float largest = kNever;
  for (const float logit : logits)
    if (logit > largest) largest = finite(logit);
  if (!possible(largest)) return;
  largest_ = largest;
  double sum = 0;
  for (const float logit : logits)
    if (possible(logit)) sum += exp_of_negative(static_cast<double>(finite(logit)) - largest_);
  log_sum_ = exact_log(sum);
}

float LogSoftmax::operator[](TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= logits_.size() || !possible(logits_[static_cast<size_t>(id)])) return kNever;
  return static_cast<float>((static_cast<double>(finite(logits_[static_cast<size_t>(id)])) - largest_) - log_sum_);
}

// While it is filled, `top` holds logits: a heap whose first entry is the worst of the best.
size_t LogSoftmax::top(std::span<TokenLogprob> top) const {
  const auto better = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  };
  size_t n = 0;
  for (size_t i = 0; i < logits_.size() && !top.empty(); ++i) {
    const TokenLogprob entry{static_cast<TokenId>(i), finite(logits_[i])};
    if (!possible(logits_[i]) || (n == top.size() && !better(entry, top.front()))) continue;
    if (n == top.size()) std::pop_heap(top.begin(), top.end(), better);
    n = std::min(n + 1, top.size());
    top[n - 1] = entry;
    std::push_heap(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(n), better);
  }
  std::sort(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(n), better);
  for (TokenLogprob& entry : top.first(n)) entry.logprob = (*this)[entry.token];
  return n;
}

}  // namespace colibri::sampling
