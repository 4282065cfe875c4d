#include "engine/affinity.h"

#include <algorithm>
#include <cmath>

namespace colibri::engine {
namespace {

constexpr float kSameDomain = 0.35f;  // cosine from which a request belongs to a domain
constexpr double kMemory = 24;        // a domain's means look back at about so many requests
constexpr float kSharpness = 8;       // of the weights by which domains share a request

size_t bucket_of(TokenId id) { return (static_cast<uint32_t>(id) * 2654435761u >> 8) % Affinity::kBuckets; }

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (size_t i = 0; i < Affinity::kBuckets; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Affinity::Affinity(size_t n_experts) : requests_with_(kBuckets), rarity_(kBuckets) {
  domains_.resize(kDomains);
  for (Domain& domain : domains_) {
    domain.profile.resize(kBuckets);
    domain.words.resize(kBuckets);
    domain.experts.resize(n_experts);
  }
}

Affinity::Profile Affinity::profile(std::span<const TokenId> prompt) {
  Profile p(kBuckets);
  for (const TokenId id : prompt) ++p[bucket_of(id)];
  ++n_requests_;
  for (size_t i = 0; i < kBuckets; ++i) {
    if (p[i] > 0) ++requests_with_[i];
    p[i] = std::sqrt(p[i] / static_cast<float>(std::max<size_t>(1, prompt.size())));
  }
  return p;
}

void Affinity::weigh_words() {
  for (size_t i = 0; i < kBuckets; ++i) {
    const double rarity = std::log((n_requests_ + 2) / (requests_with_[i] + 1.0));
    rarity_[i] = static_cast<float>(rarity * rarity);
  }
  for (Domain& domain : domains_) {
    const float size = length(domain.profile);
    for (size_t i = 0; i < kBuckets; ++i) domain.words[i] = size > 0 ? rarity_[i] * domain.profile[i] / size : 0;
  }
}

// By rarity.
float Affinity::length(const Profile& profile) const {
  float sum = 0;
  for (size_t i = 0; i < kBuckets; ++i) sum += rarity_[i] * profile[i] * profile[i];
  return std::sqrt(sum);
}

// Of a request with each domain.
Affinity::Shares Affinity::cosines(const Profile& profile) const {
  Shares cosines{};
  const float size = length(profile);
  for (size_t d = 0; d < kDomains && size > 0; ++d) cosines[d] = dot(domains_[d].words, profile) / size;
  return cosines;
}

Affinity::Domain* Affinity::nearest(const Profile& profile, float& similarity) {
  const Shares likeness = cosines(profile);
  Domain* best = nullptr;
  for (size_t d = 0; d < kDomains; ++d) {
    if (domains_[d].requests <= 0 || (best != nullptr && likeness[d] <= similarity)) continue;
    best = &domains_[d];
    similarity = likeness[d];
  }
  return best;
}

// The domain that the request belongs to, or else a new one in the place of the one that was used least of late.
Affinity::Domain& Affinity::place_for(const Profile& profile) {
  float similarity = 0;
  Domain* domain = nearest(profile, similarity);
  if (domain != nullptr && similarity >= kSameDomain) return *domain;
  Domain& least = *std::min_element(domains_.begin(), domains_.end(),
                                    [](const Domain& a, const Domain& b) { return a.requests < b.requests; });
  least.requests = 0;
  std::fill(least.profile.begin(), least.profile.end(), 0.0f);
  std::fill(least.experts.begin(), least.experts.end(), 0.0f);
  return least;
}

void Affinity::learn(const Profile& profile, std::span<const uint32_t> activations) {
  double total = 0;
  for (const uint32_t n : activations) total += n;
  if (total == 0) return;
  weigh_words();
  Domain& domain = place_for(profile);
  for (Domain& d : domains_) d.requests *= 1 - 1 / (kMemory * kDomains);
  domain.requests = std::min(domain.requests + 1, kMemory);
  const auto part = static_cast<float>(1 / domain.requests);
  for (size_t i = 0; i < kBuckets; ++i) domain.profile[i] += part * (profile[i] - domain.profile[i]);
  for (size_t e = 0; e < domain.experts.size(); ++e)
    domain.experts[e] += part * (static_cast<float>(activations[e] / total) - domain.experts[e]);
}

// How much each domain says about a request. All zero while nothing is known.
Affinity::Shares Affinity::shares_of(const Profile& profile) const {
  Shares shares = cosines(profile);
  float sum = 0;
  for (size_t d = 0; d < kDomains; ++d) {
    shares[d] = domains_[d].requests > 0 ? std::exp(kSharpness * shares[d]) : 0;
    sum += shares[d];
  }
  for (float& share : shares) share = sum > 0 ? share / sum : 0;
  return shares;
}

void Affinity::look_at_expert(size_t expert, bool resident, const Shares& running) {
  float wanted = 0;
  for (size_t d = 0; d < kDomains; ++d) wanted += running[d] * domains_[d].experts[expert];
  for (Domain& domain : domains_) {
    const float share = domain.experts[expert];
    domain.affinity += (resident ? share : 0) + std::min(share, wanted);
  }
}

float Affinity::score(const Profile& profile) const {
  const Shares shares = shares_of(profile);
  float sum = 0;
  for (size_t d = 0; d < kDomains; ++d) sum += shares[d] * domains_[d].affinity;
  return sum;
}

}  // namespace colibri::engine
