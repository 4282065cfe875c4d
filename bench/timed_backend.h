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
  void rms_norm(Rows x, const float* weight, float eps, Rows y) override {
    timed([&] { inner_->rms_norm(x, weight, eps, y); });
  }
  void add(Rows x, Rows y) override {
    timed([&] { inner_->add(x, y); });
  }
  void clamp(Rows x, float limit) override {
    timed([&] { inner_->clamp(x, limit); });
  }
  void silu_mul(Rows gate, Rows up, Rows out) override {
    timed([&] { inner_->silu_mul(gate, up, out); });
  }
  void scale_by_sigmoid(Rows x, Rows gate) override {
    timed([&] { inner_->scale_by_sigmoid(x, gate); });
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
  void route(Rows logits, const compute::RouterParams& params, int32_t* ids, float* weights) override {
    timed([&] { inner_->route(logits, params, ids, weights); });
  }
  void experts(Rows x, const int32_t* ids, const float* weights, int top_k,
               std::span<const ExpertWeights* const> experts, Rows out) override {
    timed([&] { inner_->experts(x, ids, weights, top_k, experts, out); });
  }
  void begin_experts(Rows x, const int32_t* ids, const float* weights, int top_k,
                     std::span<const ExpertWeights* const> experts, Rows out) override {
    timed([&] { inner_->begin_experts(x, ids, weights, top_k, experts, out); });
  }
  void add_experts(std::span<const int32_t> numbers) override {
    timed([&] { inner_->add_experts(numbers); });
  }
  void end_experts() override {
    timed([&] { inner_->end_experts(); });
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
