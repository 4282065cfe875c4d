// RouterParams: how logits become experts and weights. One rule of four parts serves every family: a score per logit, a
// key that experts are chosen by, groups that may drop out before, and what the chosen scores are divided by.
//
// Read by the kernels of every instruction set, so: plain structs, nothing that a linker could merge.
#pragma once

#include <stdint.h>

namespace colibri::compute {

/// What a logit's score is.
enum class RouterKind : uint8_t {
  kSoftmax,       ///< softmax over all experts; renormalised it equals the softmax over the chosen logits (gpt-oss)
  kSigmoid,       ///< each logit by itself (DeepSeek-V3, GLM, Kimi, MiniMax, Llama 4)
  kSqrtSoftplus,  ///< sqrt(log(1 + e^logit)) (DeepSeek-V4)
  kSparseMixer,   ///< two choices, each weighed by its softmax over the logits near it (Phi-3.5-MoE)
};

/// What a group of experts is ranked by.
enum class GroupScore : uint8_t {
  kLargest,    ///< its largest key (DeepSeek-V2)
  kTwoLargest  ///< the sum of its two largest keys (DeepSeek-V3)
};

constexpr int kMaxRouterExperts = 1 << 20;
constexpr int kMaxRouterGroups = 64;

struct RouterParams {
  RouterKind kind = RouterKind::kSoftmax;
  int n_experts = 0;
  int top_k = 0;
  bool renormalise = false;     ///< divide the chosen scores by their sum
  float sum_offset = 0.0f;      ///< added to that sum (1e-20 in DeepSeek-V3, 1e-6 in LFM2)
  float sum_floor = 0.0f;       ///< the least that the scores are divided by (1e-12 in ERNIE-4.5)
  float scale = 1.0f;           ///< times every weight
  const float* bias = nullptr;  ///< [n_experts] added to the scores for choosing only; or null
  int n_groups = 1;             ///< consecutive experts, equally many in each group
  int top_groups = 1;           ///< only experts of the best so many groups are chosen
  GroupScore group_score = GroupScore::kLargest;
  const float* expert_scale = nullptr;  ///< [n_experts], finite: times the weight in the end (Gemma 4); or null
  float jitter = 0.01f;                 ///< kSparseMixer: how near is near
};

}  // namespace colibri::compute
