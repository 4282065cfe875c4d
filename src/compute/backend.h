// Backend: the operations a model needs, on views of memory that the caller owns.
//
// The contract that makes "same tokens always" possible: every output element has ONE order of float operations, which
// depends on the element alone, never on the instruction set, the number of threads or the number of rows in the call.
//   - matrix products of floats: one chain of fused multiply-adds over the inputs in ascending order, starting from 0
//   - quantised weights times 8-bit activations: sums of products are whole numbers and exact; per strip of 256 inputs
//     they become one float, and a chain of fused multiply-adds goes over the strips (cpu/kernels/product_inl.h, expanded_inl.h).
//     The activations of a row share one scale per strip. 256 is a measured choice: over the demo model's texts the
//     mean negative log likelihood differs from that with 32 by a hundredth of a percent, in both directions
//   - the outputs of a row's experts: a chain of fused multiply-adds in ascending expert id, starting from 0
//   - sums over a row (norms, the tiles of attention): 16 lanes (element i goes to lane i % 16, ascending), then a
//   fixed
//     tree ((l0+l8)+(l4+l12))+... : lanes are added pairwise at distance 8, 4, 2, 1
//   - the router: one chain of additions over the experts in ascending id of e^(logit - largest), or over the chosen
//     ones in descending order of choice (see route)
//   - exp, sigmoid, softplus: our own polynomials (compute/cpu/kernels), never libm
//   - online softmax: tiles of kKeyTile keys that start at absolute positions
// So results are equal bit by bit for any --isa, --threads and --prefill-chunk.
//
// Thread-safety: one thread at a time calls a backend; inside, it uses its own pool.
// Nothing here allocates after create(): scratch memory is sized by BackendLimits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compute/cpu/kernels/router_params.h"
#include "tensor/kv_view.h"
#include "tensor/packed.h"
#include "tensor/tensor.h"

namespace colibri::compute {

constexpr int kKeyTile = 64;

/// The largest problem that a backend will see; its scratch memory follows from it.
struct BackendLimits {
  int64_t max_rows = 1;           ///< rows of one forward pass
  int64_t max_inputs = 1;         ///< largest k of any matmul
  int64_t max_expert_width = 0;   ///< intermediate width of an expert (0: no MoE)
  int64_t max_expert_inputs = 0;  ///< hidden width that experts read and write (0: max_inputs)
  int n_experts = 0;
  int top_k = 0;
  int head_dim = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int max_segments = 1;           ///< sequences in one pass
  int64_t max_apart_rows = 0;     ///< rows whose experts may be added in any order
  bool quantised_experts = true;  ///< some expert matrix multiplies 8-bit activations
  bool float_experts = true;      ///< some expert matrix multiplies floats
};

struct BackendOptions {
  std::string isa = "auto";  ///< auto, scalar, sse4, avx2, avxvnni, avx512, amx, neon
  int threads = 1;
  bool float_activations = false;  ///< never quantise: weights are expanded, results equal the reference's
  int router_threads = 1;          ///< of these, how many may share the router's rows
  BackendLimits limits;
};

/// y[r, n] = sum over k of x[r, k] * w[n, k] (+ bias[n], added last), for an x [rows, k] that several share.
struct Product {
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  ///< [n], or null
  Rows y;                       ///< [rows, n]
};

/// How RoPE pairs elements and which angles it uses. cos and sin carry the family's attention factor already.
struct RopeTable {
  bool interleaved = false;    ///< pairs (2i, 2i+1) instead of (i, i + rotary_dim / 2)
  int rotary_dim = 0;          ///< the first rotary_dim elements of each head turn; the rest stay
  const float* cos = nullptr;  ///< [positions, rotary_dim / 2]
  const float* sin = nullptr;  ///< [positions, rotary_dim / 2]
};

/// A run of rows that belong to one sequence at consecutive positions.
struct AttentionSegment {
  KvView kv;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t first_position = 0;
};

struct AttentionParams {
  int n_heads = 0;
  float scale = 1.0f;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string isa() const = 0;  ///< level in use, "avx512"
  virtual int threads() const = 0;

  /// `stop` is asked many times during every operation, from several threads; once it says true, the rest of the work
  /// is skipped and abandoned() holds until the next watch(). For cancelling within an operation. `stop` may be null.
  virtual void watch(bool (*stop)(const void*), const void* context) = 0;
  /// Work was skipped since the last watch(): results since then are worthless.
  virtual bool abandoned() const = 0;

  /// out[r] = table row ids[r].
  virtual void embed(const PackedMatrix& table, std::span<const int32_t> ids, Rows out) = 0;
  /// All of the products of x [rows, k], as one piece of work.
  virtual void multiply(Rows x, std::span<const Product> products) = 0;
  void matmul(Rows x, const PackedMatrix& w, const float* bias, Rows y) {
    const Product product{&w, bias, y};
    multiply(x, {&product, 1});
  }
  /// y = x / sqrt(mean(x^2) + eps) * weight over each row. x and y may be the same memory.
  virtual void rms_norm(Rows x, const float* weight, float eps, Rows y) = 0;
  /// x += y.
  virtual void add(Rows x, Rows y) = 0;
  /// Clamps every element to [-limit, limit].
  virtual void clamp(Rows x, float limit) = 0;
  /// out = silu(gate) * up; out may be gate.
  virtual void silu_mul(Rows gate, Rows up, Rows out) = 0;
  /// x[r] *= sigmoid(gate[r, 0]). gate [rows, 1].
  virtual void scale_by_sigmoid(Rows x, Rows gate) = 0;
  /// Turns each head of x [rows, heads * head_dim] by the angles of positions[r].
  virtual void rope(Rows x, int head_dim, std::span<const int32_t> positions, const RopeTable& table) = 0;
  /// Writes keys and values [rows, kv_heads * head_dim] of the segments' rows into their caches.
  virtual void kv_append(Rows keys, Rows values, std::span<const AttentionSegment> segments) = 0;
  /// Causal attention with grouped heads over the caches (which already hold the rows' own keys).
  /// q, out [rows, n_heads * head_dim].
  virtual void attention(Rows q, std::span<const AttentionSegment> segments, const AttentionParams& params,
                         Rows out) = 0;
  /// Chooses experts. logits [rows, n_experts] -> ids and weights [rows, top_k]; REQUIRES check_router(params).ok().
  ///   keys:    the logits, which every score orders alike; with a bias, or with groups that are ranked by a sum, the
  ///            scores (softmax: divided by the sum over all experts) plus the bias
  ///   choice:  by descending key, equal ones (-0 equals +0) by ascending id, exactly like a stable sort. NaN ranks
  ///            below every number, and so do the experts of dropped groups. Groups likewise, by their score, where NaN
  ///            keys count as -infinity
  ///   terms:   e^(logit - largest logit) for softmax, where the largest weigh 1 even if they are infinite; else the
  ///            score. 0 for experts that were chosen without a number for a key
  ///   weights: scale * term / divisor; the divisor is the sum of the chosen terms in the order of choice plus
  ///            sum_offset when renormalised, else the sum of all terms in ascending id for softmax, else 1. A divisor
  ///            of 0 gives 0. So weights are never NaN
  virtual void route(Rows logits, const RouterParams& params, int32_t* ids, float* weights) = 0;
  /// out[r] = sum over the row's experts, in ascending expert id, of weight * down(silu(gate x) * up x).
  /// Rows are grouped by expert. experts[e] may be null where no row chose e. ids, weights [rows, top_k].
  virtual void experts(Rows x, const int32_t* ids, const float* weights, int top_k,
                       std::span<const ExpertWeights* const> experts, Rows out) = 0;

  /// The same in parts, for experts that arrive one after the other: begin_experts, then every chosen expert in exactly
  /// one call of add_experts, then end_experts, which completes out. x and out must stay until then, and no other
  /// operation may come between. Shapes and encodings of all of `experts` are set from the start, their data when they
  /// are added. Any order for up to BackendLimits::max_apart_rows rows (outputs are kept apart until the end), else
  /// ascending over all calls (outputs are added at once).
  virtual void begin_experts(Rows x, const int32_t* ids, const float* weights, int top_k,
                             std::span<const ExpertWeights* const> experts, Rows out) = 0;
  /// `numbers` ascending, each with at least one row.
  virtual void add_experts(std::span<const int32_t> numbers) = 0;
  virtual void end_experts() = 0;
};

/// kUsage, with the numbers, when no router can work like this.
Status check_router(const RouterParams& params);
/// Backend::route on the calling thread with the best level of this CPU, for any number of rows; takes no memory and
/// may be called from any thread. kUsage as check_router says.
Status route(Rows logits, const RouterParams& params, int32_t* ids, float* weights);

/// kUsage when the level is unknown or this CPU lacks it (the message lists what it has).
Result<std::unique_ptr<Backend>> create_cpu_backend(const BackendOptions& options);
/// Bytes of scratch memory that create_cpu_backend will take for these options.
int64_t cpu_backend_scratch_bytes(const BackendOptions& options);

/// An instruction set level, best first in isa_levels().
struct IsaLevel {
  const char* name;
  bool available;  ///< on this CPU
};
std::vector<IsaLevel> isa_levels();

/// Self-check and timing of one kernel on one level.
struct KernelReport {
  std::string isa, operation, encoding;
  bool equal = false;      ///< bit for bit equal to scalar
  double nanoseconds = 0;  ///< per row
  double gflops = 0;       ///< 0 where it means nothing
};
/// Runs every available level against scalar on random data. Takes a second or two.
Result<std::vector<KernelReport>> test_kernels();
Result<std::vector<KernelReport>> test_router();

}  // namespace colibri::compute
