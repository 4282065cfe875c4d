// Affinity: which experts a request will want before anything of it is computed, by what requests like it wanted.
//
// Requests are gathered into a few domains by the words of their prompts: each domain has a profile of token counts
// (hashed into buckets, rare ones weigh more: how rare, all prompts tell that have come so far) and a fading mean of
// the experts that its requests used. A waiting request takes the experts of the domain whose profile is nearest, in
// proportion to how near it is. What of those is in memory, and what the running requests want too, is its affinity;
// the scheduler may prefer requests with more of it (setting `batching`). This steers time only, never a result.
// Thread-safety: the engine's thread only. Memory: all of it in the constructor, and kBuckets floats for each request.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token_ids.h"

namespace colibri::engine {

class Affinity {
 public:
  static constexpr size_t kBuckets = 512;
  static constexpr size_t kDomains = 16;
  using Profile = std::vector<float>;  ///< [kBuckets]: square roots of shares, so that no word is all of a prompt

  /// `n_experts`: of all layers together.
  explicit Affinity(size_t n_experts);

  /// Of a prompt that has come.
  Profile profile(std::span<const TokenId> prompt);
  /// A request with this profile used these experts so often. [n_experts]
  void learn(const Profile& profile, std::span<const uint32_t> activations);
  /// What score() compares with: the experts that `resident(expert)` names, and what requests with the profiles that
  /// `for_each_running(visit)` visits will want.
  template <typename Resident, typename ForEachRunning>
  void look(Resident resident, ForEachRunning for_each_running) {
    weigh_words();
    Shares running{};
    float n = 0;
    for_each_running([&](const Profile& profile) {
      const Shares shares = shares_of(profile);
      for (size_t d = 0; d < kDomains; ++d) running[d] += shares[d];
      ++n;
    });
    for (float& share : running) share = n > 0 ? share / n : 0;
    for (Domain& domain : domains_) domain.affinity = 0;
    for (size_t e = 0; e < domains_[0].experts.size(); ++e) look_at_expert(e, resident(e), running);
  }
  /// Of the experts that a request with this profile will probably want, the share that is in memory plus the share
  /// that running requests want as often; 0 to 2. A request that is like none known gets the mean of all.
  float score(const Profile& profile) const;

 private:
  using Shares = std::array<float, kDomains>;  // by domain
  struct Domain {
    double requests = 0;         ///< fading number
    Profile profile;             ///< fading mean
    std::vector<float> words;    ///< [kBuckets]: the profile by rarity, so that a dot product with it is a cosine
    std::vector<float> experts;  ///< [n_experts], shares: they sum to 1
    float affinity = 0;          ///< by the last look()
  };
  Shares shares_of(const Profile& profile) const;
  void look_at_expert(size_t expert, bool resident, const Shares& running);
  void weigh_words();
  float length(const Profile& profile) const;
  Shares cosines(const Profile& profile) const;
  Domain* nearest(const Profile& profile, float& similarity);
  Domain& place_for(const Profile& profile);
  std::vector<Domain> domains_;
  std::vector<float> requests_with_;  // by bucket: in how many requests it occurred
  std::vector<float> rarity_;         // by bucket: the square of the logarithm of how rare it is
  double n_requests_ = 0;
};

}  // namespace colibri::engine
