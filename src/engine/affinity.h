// Affinity: which experts a request will want before anything of it is computed, by what requests like it wanted.
//
// Requests are gathered into a few domains by the words of their prompts: each domain has a profile of token counts
// (hashed into buckets, rare ones weigh more) and a fading mean of the experts that its requests used. A waiting
// request takes the experts of the domain whose profile is nearest, in proportion to how near it is. What is in memory
// of those is its affinity to the cache; the scheduler may prefer requests with more of it (setting `batching`). This
// steers time only, never a result. Thread-safety: the engine's thread only. Memory: all of it in the constructor, and
// kBuckets floats for each request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_ids.h"

namespace colibri::engine {

class Affinity {
 public:
  static constexpr size_t kBuckets = 512;
  static constexpr size_t kDomains = 16;
  using Profile = std::vector<float>;  ///< [kBuckets], of length 1

  /// `n_experts`: of all layers together.
  explicit Affinity(size_t n_experts);

  /// Of a prompt.
  Profile profile(std::span<const TokenId> prompt) const;
  /// A request with this profile used these experts so often. [n_experts]
  void learn(const Profile& profile, std::span<const uint32_t> activations);
  /// The share of each domain's experts that `resident(expert)` names. Before score().
  template <typename Resident>
  void look_at_cache(Resident resident) {
    for (Domain& domain : domains_) {
      double there = 0;
      for (size_t e = 0; e < domain.experts.size(); ++e)
        if (domain.experts[e] > 0 && resident(e)) there += domain.experts[e];
      domain.resident = static_cast<float>(there);
    }
  }
  /// The share of the experts that a request with this profile will probably want and that are in memory; 0 to 1. A
  /// request that is like none known gets the mean of all.
  float score(const Profile& profile) const;

 private:
  struct Domain {
    double requests = 0;         ///< fading number
    Profile profile;             ///< of length 1
    std::vector<float> experts;  ///< [n_experts], shares: they sum to 1
    float resident = 0;
  };
  Domain* nearest(const Profile& profile, float& similarity);
  Domain& place_for(const Profile& profile);
  std::vector<Domain> domains_;
  std::vector<float> requests_with_;  // by bucket: in how many requests it occurred
  double n_requests_ = 0;
};

}  // namespace colibri::engine
