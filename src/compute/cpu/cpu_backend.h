// CpuBackend: the operations of backend.h on a thread pool and the kernels of one instruction set level.
//
// One file per group of operations: matmul.cc, groups.cc, rows.cc, attention.cc, select_keys.cc, streams.cc, router.cc,
// experts.cc, recurrent.cc, compress.cc; create.cc makes one. Operations cut their work into tasks by outputs or rows,
// never by terms of a sum, so that threads cannot change a result. Ownership: owns its pool and one arena of scratch
// memory; nothing is allocated after creation.
#pragma once

#include <memory>
#include <utility>

#include "compute/backend.h"
#include "compute/cpu/isa.h"
#include "compute/cpu/scratch.h"
#include "compute/cpu/thread_pool.h"
#include "platform/memory.h"

namespace colibri::compute {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Isa& isa, const BackendOptions& options, std::unique_ptr<ThreadPool> pool, platform::Arena arena);

  std::string isa() const override { return isa_.name; }
  int threads() const override { return pool_->threads(); }
  void watch(bool (*stop)(const void*), const void* context) override { pool_->watch(stop, context); }
  bool abandoned() const override { return pool_->abandoned(); }

  void embed(const PackedMatrix& table, std::span<const int32_t> ids, Rows out) override;
  void multiply(Rows x, std::span<const Product> products) override;
  void multiply_groups(Rows x, std::span<const PackedMatrix> w, Rows y) override;
  void rms_norm(Rows x, const float* weight, float eps, Rows y) override;
  void layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows y) override;
  void add_scaled(Rows x, float factor, Rows y) override;
  void scale(Rows x, float factor) override;
  void multiply_elements(Rows x, Rows y) override;
  void clamp(Rows x, float limit) override;
  void soft_cap(Rows x, float cap) override;
  void activate(Rows gate, Rows up, const Activation& activation, Rows out) override;
  void scale_by_sigmoid(Rows x, Rows gate) override;
  void join_heads(Rows a, Rows b, int heads, Rows out) override;
  void rope(Rows x, int head_dim, std::span<const int32_t> positions, const RopeTable& table) override;
  void kv_append(Rows keys, Rows values, std::span<const AttentionSegment> segments) override;
  void attention(Rows q, std::span<const AttentionSegment> segments, const AttentionParams& params, Rows out) override;
  void select_keys(Rows q, Rows weights, std::span<const AttentionSegment> segments, int64_t top_k,
                   KeySets chosen) override;
  void stream_weights(Rows weights, const StreamParams& params) override;
  void collapse_streams(Rows x, Rows weights, Rows out) override;
  void expand_streams(Rows x, Rows weights, Rows y) override;
  void route(Rows logits, const RouterParams& params, int32_t* ids, float* weights) override;
  void weigh(Rows logits, const RouterParams& params, const int32_t* ids, float* weights) override;
  void experts(Rows x, const int32_t* ids, const float* weights, const ExpertParams& params,
               std::span<const ExpertWeights* const> experts, Rows out) override;
  void begin_experts(Rows x, const int32_t* ids, const float* weights, const ExpertParams& params,
                     std::span<const ExpertWeights* const> experts, Rows out) override;
  void add_experts(std::span<const int32_t> numbers) override;
  void end_experts() override;
  void mul(Columns a, Columns b, Columns out) override;
  void sigmoid(Columns x, Columns out) override;
  void l2_norm(Columns x, int64_t head_dim, float scale, Columns y) override;
  void causal_conv(Columns x, std::span<const RecurrentSegment> segments, const ConvParams& params,
                   Columns out) override;
  void decay(Columns x, const DecayParams& params, Columns out) override;
  void delta_rule(const DeltaRuleInputs& in, std::span<const RecurrentSegment> segments, const DeltaRuleParams& params,
                  Columns out) override;
  void mamba2(const Mamba2Inputs& in, std::span<const RecurrentSegment> segments, const Mamba2Params& params,
              Columns out) override;
  void compress(Columns kv, Columns gate, std::span<const CompressSegment> segments, const CompressParams& params,
                Columns out) override;
  void gated_norm(Columns x, Columns gate, const GatedNormParams& params, Columns out) override;

 private:
  /// Rows of inputs in the forms that kernels read; a form that no matrix needs may be missing.
  struct InputRows {
    const float* const* floats = nullptr;
    const ActivationStrip* const* strips = nullptr;
    int64_t rows = 0;

    InputRows slice(int64_t first, int64_t n) const {
      return {floats != nullptr ? floats + first : nullptr, strips != nullptr ? strips + first : nullptr, n};
    }
  };
  /// Outputs of some panels: row 0 of the first of them, and floats from one row to the next.
  struct OutputTile {
    float* c;
    int64_t stride;
  };
  /// The rows of one expert: slots [first_slot, first_slot + rows).
  struct ExpertGroup {
    const ExpertWeights* expert;
    int64_t first_slot, rows;
  };
  /// What begin_experts was called with, and what follows from it.
  struct ExpertCall {
    Rows x;
    const int32_t* ids;
    const float* weights;
    ExpertParams params;
    std::span<const ExpertWeights* const> experts;
    Rows out;
    bool apart;                             ///< outputs are kept apart until end_experts
    int64_t n_active = 0;                   ///< experts that have rows: scratch_.active[0 .. n_active)
    int64_t first_identity = 0;             ///< slots from here on belong to identity experts
    const ExpertWeights* sample = nullptr;  ///< one of the active ones; all have its shape
    InputRows inputs{}, hidden{};           ///< by slot
    bool float_inputs = false, strip_inputs = false, float_hidden = false, strip_hidden = false;

    int64_t slots() const { return x.rows * params.top_k; }
    int64_t width() const { return sample != nullptr ? sample->up.n : 0; }  ///< of the hidden rows
  };

  /// Calls body(row) for every row; in parallel when `elements` per row make it worth waking anybody.
  template <typename Body>
  void for_each_row(int64_t rows, int64_t elements, const Body& body) {
    constexpr int64_t kElementsPerTask = 16 * 1024;
    const int64_t per_task = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, elements));
    pool_->run(ceil_div(rows, per_task), [&](int64_t task, int) {
      const int64_t end = std::min(rows, (task + 1) * per_task);
      for (int64_t r = task * per_task; r < end; ++r) body(r);
    });
  }

  /// This matrix multiplies 8-bit activations.
  bool takes_strips(const PackedMatrix& w) const { return has_codes(w.encoding) && !float_activations_; }
  template <typename T>
  T* of_thread(T* scratch, int64_t each, int thread) const {
    return scratch + thread * each;
  }

  void select_rows(Rows q, Rows weights, const AttentionSegment& segment, int64_t first, int64_t n, int64_t top_k,
                   KeySets chosen);
  void quantise_rows(Rows x);
  InputRows input_rows(Rows x, bool floats, bool strips);
  void multiply_panels(const InputRows& x, const PackedMatrix& w, int64_t panel, int64_t panels, const float* bias,
                       OutputTile out, int thread);
  void multiply_strips(const InputRows& x, const PackedMatrix& w, int64_t panel, int64_t panels, const float* bias,
                       OutputTile out, int thread);
  void multiply_floats(const InputRows& x, const PackedMatrix& w, int64_t panel, int64_t panels, const float* bias,
                       OutputTile out, int thread);
  void multiply_expanded(TileJob job, const PackedMatrix& w, int64_t panel, int thread);
  InputRows group_inputs(Rows x, const PackedMatrix& w, int64_t first_column, int thread);

  void share_route(const RouteJob& whole);

  void start_experts(const ExpertCall& call);
  void group_rows(ExpertCall& call);
  void count_rows(ExpertCall& call);
  void check_experts(ExpertCall& call);
  ExpertGroup group_of(int32_t expert) const;
  float output_weight(int64_t slot) const;
  void gate_and_up(std::span<const int32_t> numbers);
  void activate_row(int64_t slot, float* gate, float* up, int64_t n);
  void store_hidden(const float* hidden, int64_t slot, int64_t strip, int64_t n);
  void down(std::span<const int32_t> numbers);
  void down_apart(std::span<const int32_t> numbers);

  const Isa& isa_;
  const KernelTable& kernels_;
  const RecurrentTable& recurrent_;
  const BackendLimits limits_;
  const bool float_activations_;
  const int router_threads_;
  std::unique_ptr<ThreadPool> pool_;
  platform::Arena arena_;
  Scratch scratch_;
  ExpertCall call_{};
};

}  // namespace colibri::compute
