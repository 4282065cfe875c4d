// TimedBackend: a backend that hands every operation on to another one and adds up how long they took.
//
// What a forward pass takes beyond that sum is the decoder's own. Thread-safety and ownership: as Backend; it owns the
// other one. Invariant: results are those of the other one.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "compute/backend.h"

namespace colibri::bench {

class TimedBackend final : public compute::Backend {
 public:
  explicit TimedBackend(std::unique_ptr<compute::Backend> inner) : inner_(std::move(inner)) {}

  /// Seconds in operations since the last call.
  double take_seconds() { return std::exchange(seconds_, 0.0); }

  std::string isa() const override { return inner_->isa(); }
  int threads() const override { return inner_->threads(); }
  void watch(bool (*stop)(const void*), const void* context) override { inner_->watch(stop, context); }
  bool abandoned() const override { return inner_->abandoned(); }

  void embed(const PackedMatrix& table, std::span<const int32_t> ids, Rows out) override {
    timed([&] { inner_->embed(table, ids, out); });
  }
  void multiply(Rows x, std::span<const compute::Product> products) override {
    timed([&] { inner_->multiply(x, products); });
  }
  void multiply_groups(Rows x, std::span<const PackedMatrix> w, Rows y) override {
    timed([&] { inner_->multiply_groups(x, w, y); });
  }
  void rms_norm(Rows x, const float* weight, float eps, Rows y) override {
    timed([&] { inner_->rms_norm(x, weight, eps, y); });
  }
  void layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows y) override {
    timed([&] { inner_->layer_norm(x, weight, bias, eps, y); });
  }
  void add_scaled(Rows x, float factor, Rows y) override {
    timed([&] { inner_->add_scaled(x, factor, y); });
  }
  void scale(Rows x, float factor) override {
    timed([&] { inner_->scale(x, factor); });
  }
  void multiply_elements(Rows x, Rows y) override {
    timed([&] { inner_->multiply_elements(x, y); });
  }
  void clamp(Rows x, float limit) override {
    timed([&] { inner_->clamp(x, limit); });
  }
  void soft_cap(Rows x, float cap) override {
    timed([&] { inner_->soft_cap(x, cap); });
  }
  void activate(Rows gate, Rows up, const compute::Activation& activation, Rows out) override {
    timed([&] { inner_->activate(gate, up, activation, out); });
  }
  void scale_by_sigmoid(Rows x, Rows gate) override {
    timed([&] { inner_->scale_by_sigmoid(x, gate); });
  }
  void join_heads(Rows a, Rows b, int heads, Rows out) override {
    timed([&] { inner_->join_heads(a, b, heads, out); });
  }
  void rope(Rows x, int head_dim, std::span<const int32_t> positions, const compute::RopeTable& table) override {
    timed([&] { inner_->rope(x, head_dim, positions, table); });
  }
  void kv_append(Rows keys, Rows values, std::span<const compute::AttentionSegment> segments) override {
    timed([&] { inner_->kv_append(keys, values, segments); });
  }
  void attention(Rows q, std::span<const compute::AttentionSegment> segments, const compute::AttentionParams& params,
                 Rows out) override {
    timed([&] { inner_->attention(q, segments, params, out); });
  }
  void select_keys(Rows q, Rows weights, std::span<const compute::AttentionSegment> segments, int64_t top_k,
                   compute::KeySets chosen) override {
    timed([&] { inner_->select_keys(q, weights, segments, top_k, chosen); });
  }
  void stream_weights(Rows weights, const compute::StreamParams& params) override {
    timed([&] { inner_->stream_weights(weights, params); });
  }
  void collapse_streams(Rows x, Rows weights, Rows out) override {
    timed([&] { inner_->collapse_streams(x, weights, out); });
  }
  void expand_streams(Rows x, Rows weights, Rows y) override {
    timed([&] { inner_->expand_streams(x, weights, y); });
  }
  void route(Rows logits, const compute::RouterParams& params, int32_t* ids, float* weights) override {
    timed([&] { inner_->route(logits, params, ids, weights); });
  }
  void weigh(Rows logits, const compute::RouterParams& params, const int32_t* ids, float* weights) override {
    timed([&] { inner_->weigh(logits, params, ids, weights); });
  }
  void experts(Rows x, const int32_t* ids, const float* weights, const compute::ExpertParams& params,
               std::span<const ExpertWeights* const> experts, Rows out) override {
    timed([&] { inner_->experts(x, ids, weights, params, experts, out); });
  }
  void begin_experts(Rows x, const int32_t* ids, const float* weights, const compute::ExpertParams& params,
                     std::span<const ExpertWeights* const> experts, Rows out) override {
    timed([&] { inner_->begin_experts(x, ids, weights, params, experts, out); });
  }
  void add_experts(std::span<const int32_t> numbers) override {
    timed([&] { inner_->add_experts(numbers); });
  }
  void end_experts() override {
    timed([&] { inner_->end_experts(); });
  }
  void mul(compute::Columns a, compute::Columns b, compute::Columns out) override {
    timed([&] { inner_->mul(a, b, out); });
  }
  void sigmoid(compute::Columns x, compute::Columns out) override {
    timed([&] { inner_->sigmoid(x, out); });
  }
  void l2_norm(compute::Columns x, int64_t head_dim, float scale, compute::Columns y) override {
    timed([&] { inner_->l2_norm(x, head_dim, scale, y); });
  }
  void causal_conv(compute::Columns x, std::span<const compute::RecurrentSegment> segments,
                   const compute::ConvParams& params, compute::Columns out) override {
    timed([&] { inner_->causal_conv(x, segments, params, out); });
  }
  void decay(compute::Columns x, const compute::DecayParams& params, compute::Columns out) override {
    timed([&] { inner_->decay(x, params, out); });
  }
  void delta_rule(const compute::DeltaRuleInputs& in, std::span<const compute::RecurrentSegment> segments,
                  const compute::DeltaRuleParams& params, compute::Columns out) override {
    timed([&] { inner_->delta_rule(in, segments, params, out); });
  }
  void mamba2(const compute::Mamba2Inputs& in, std::span<const compute::RecurrentSegment> segments,
              const compute::Mamba2Params& params, compute::Columns out) override {
    timed([&] { inner_->mamba2(in, segments, params, out); });
  }
  void compress(compute::Columns kv, compute::Columns gate, std::span<const compute::CompressSegment> segments,
                const compute::CompressParams& params, compute::Columns out) override {
    timed([&] { inner_->compress(kv, gate, segments, params, out); });
  }
  void gated_norm(compute::Columns x, compute::Columns gate, const compute::GatedNormParams& params,
                  compute::Columns out) override {
    timed([&] { inner_->gated_norm(x, gate, params, out); });
  }

 private:
  template <typename Operation>
  void timed(const Operation& operation) {
    const auto start = std::chrono::steady_clock::now();
    operation();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::unique_ptr<compute::Backend> inner_;
  double seconds_ = 0;
};

}  // namespace colibri::bench
