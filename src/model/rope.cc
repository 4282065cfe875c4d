#include "model/rope.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace colibri::model {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// Slow wavelengths are stretched by the factor, fast ones stay, those between are blended (Llama 3.1).
double llama3_frequency(const RopeSpec& spec, double frequency) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength > spec.original_context / spec.low_freq_factor) return frequency / spec.factor;
  if (wavelength < spec.original_context / spec.high_freq_factor) return frequency;
  const double smooth =
      (spec.original_context / wavelength - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor);
  return (1.0 - smooth) * frequency / spec.factor + smooth * frequency;
}

// The dimension whose wavelength fits `rotations` times into the original context (YaRN, arXiv 2309.00071,
// section 3.2).
double yarn_dimension(const RopeSpec& spec, double rotations) {
  return spec.rotary_dim * exact_log(spec.original_context / (rotations * kTwoPi)) / (2.0 * exact_log(spec.theta));
}

double yarn_frequency(const RopeSpec& spec, double frequency, int i) {
  double low = yarn_dimension(spec, spec.beta_fast);
  double high = yarn_dimension(spec, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, spec.rotary_dim - 1.0);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
  return frequency / spec.factor * ramp + frequency * (1.0 - ramp);
}

double scaled_frequency(const RopeSpec& spec, double frequency, int i) {
  switch (spec.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kLong:
      return frequency;
    case RopeScaling::kLinear:
      return frequency / spec.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(spec, frequency);
    case RopeScaling::kYarn:
      return yarn_frequency(spec, frequency, i);
  }
  return frequency;
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const RopeSpec& spec, bool long_prompt) {
  const std::vector<float>& divisors = long_prompt ? spec.long_divisors : spec.frequency_divisors;
  std::vector<float> result(static_cast<size_t>(spec.rotary_dim / 2));
  for (size_t i = 0; i < result.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / spec.rotary_dim;
    double frequency = scaled_frequency(spec, exact_pow(spec.theta, -exponent), static_cast<int>(i));
    if (!divisors.empty()) frequency /= static_cast<double>(divisors[i]);
    result[i] = static_cast<float>(frequency);
  }
  return result;
}

int64_t rope_table_floats(const RopeSpec& spec, int64_t positions) {
  return positions * (spec.rotary_dim / 2) * (spec.has_long() ? 2 : 1);
}

void fill_rope_tables(const RopeSpec& spec, int64_t positions, float* cos, float* sin) {
  for (const bool long_prompt : {false, true}) {
    if (long_prompt && !spec.has_long()) return;
    const std::vector<float> frequencies = rope_inverse_frequencies(spec, long_prompt);
    const double factor = long_prompt ? spec.long_attention_factor : spec.attention_factor;
    for (int64_t p = 0; p < positions; ++p) {
      for (const float frequency : frequencies) {
        // The reference multiplies position and frequency in float32; so must we, or late positions drift from it.
        const float angle = static_cast<float>(p) * frequency;
        *cos++ = static_cast<float>(exact_cos(angle) * factor);
        *sin++ = static_cast<float>(exact_sin(angle) * factor);
      }
    }
  }
}

}  // namespace colibri::model
