// Backend: the operations a model needs, on views of memory that the caller owns.
//
// The contract that makes "same tokens always" possible: every output element has ONE order of float operations, which
// depends on the element alone, never on the instruction set, the number of threads or the number of rows in the call.
//   - matrix products of floats: one chain of fused multiply-adds over the inputs in ascending order, starting from 0
//   - quantised weights times 8-bit activations: sums of products are whole numbers and exact; per strip of 256 inputs
//     they become one float, and a chain of fused multiply-adds goes over the strips (cpu/kernels/product_inl.h,
//     expanded_inl.h). The activations of a row share one scale per strip. 256 is a measured choice: over the demo
//     model's texts the mean negative log likelihood differs from that with 32 by a hundredth of a percent, in both
//     directions
//   - grouped products: each group like a matrix product of its own; strips begin anew in each group
//   - the outputs of a row's experts: a chain of fused multiply-adds in ascending expert id, starting from 0
//   - sums over a row (norms, the tiles of attention): 16 lanes (element i goes to lane i % 16, ascending), then a
//     fixed tree ((l0+l8)+(l4+l12))+... : lanes are added pairwise at distance 8, 4, 2, 1. A layer norm adds up twice:
//     the elements, then the squares of their distances from the mean
//   - the router: one chain of additions over the experts in ascending id of e^(logit - largest), or over the chosen
//     ones in descending order of choice (see route)
//   - exp, tanh, sigmoid, softplus: our own polynomials (compute/cpu/kernels), never libm
//   - element by element, everything else rounds after each step of the formula as it is written
//   - recurrent mixers: compute/recurrent.h
//   - online softmax: tiles of kKeyTile keys that start at absolute positions; a sink is the first term, before any
//     tile. A key that a row does not see adds exactly nothing, so tiles that nobody sees may be left out
//     keys that stand for several positions are one more run of tiles behind those of the positions
//   - residual streams: chains of fused multiply-adds over the streams, ascending; sums of their weights likewise, of
//     plain additions
//   - index scores: one chain of fused multiply-adds over the heads in ascending order, starting from 0 (select_keys)
// So results are equal bit by bit for any --isa, --threads and --prefill-chunk.
//
// Thread-safety: one thread at a time calls a backend; inside, it uses its own pool.
// Nothing here allocates after create(): scratch memory is sized by BackendLimits.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compute/cpu/kernels/activation.h"
#include "compute/cpu/kernels/router_params.h"
#include "compute/cpu/kernels/streams.h"
#include "compute/recurrent.h"
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
  int64_t max_group_inputs = 0;   ///< largest k of multiply_groups
  int n_experts = 0;              ///< including identity experts
  int top_k = 0;
  int key_dim = 0;    ///< of attention; the largest of any layer
  int value_dim = 0;  ///< likewise
  int n_heads = 0;
  int n_kv_heads = 0;
  int index_heads = 0;            ///< of select_keys
  int index_key_dim = 0;          ///< likewise
  int64_t index_positions = 0;    ///< positions that select_keys may look at
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
  int rotary_dim = 0;          ///< so many elements of each head turn; the rest stay
  const float* cos = nullptr;  ///< [positions, rotary_dim / 2]
  const float* sin = nullptr;  ///< [positions, rotary_dim / 2]
  int first = 0;               ///< those elements begin here in each head
  bool inverse = false;        ///< turn back: the sines change their signs
};

/// A run of rows that belong to one sequence at consecutive positions.
struct AttentionSegment {
  KvView kv;
  int64_t first_row = 0;
  int64_t n_rows = 0;
  int64_t first_position = 0;
  KvView entries{};  ///< more keys, each for `rate` positions; shaped like kv, or without data
  int64_t rate = 1;  ///< a row at position p sees entry e if e < (p + 1) / rate
};

/// A set of positions for each row of a batch: bit p % 64 of word p / 64 stands for position p.
struct KeySets {
  uint64_t* words = nullptr;  ///< [rows, words_per_row]
  int64_t words_per_row = 0;
};

/// Which keys a query at position i sees: those at positions j <= i that the following allow; at least one, or a sink.
struct AttentionParams {
  int n_heads = 0;
  float scale = 1.0f;
  int64_t window = 0;            ///< i - j < window; 0: all
  int64_t chunk = 0;             ///< j / chunk == i / chunk; 0: all
  KeySets allowed{};             ///< j is in the set of the query's row; without words: all. With entries: of these
  const float* sinks = nullptr;  ///< [n_heads]: logits that take part in the softmax but have no value; or null
  float soft_cap = 0;            ///< scores are soft_cap * tanh(scale * q k / soft_cap); 0: scale * q k
};

/// Numbers [first, end).
struct ExpertRange {
  int32_t first = 0, end = std::numeric_limits<int32_t>::max();
  bool is_last(int64_t n_experts) const { return end >= n_experts; }
};

/// How experts mix.
struct ExpertParams {
  int top_k = 0;
  Activation activation{};       ///< gated exactly if the experts have a gate
  bool weight_on_input = false;  ///< the weight belongs to the expert's input, so to gate x and up x (Llama 4)
  int n_identity = 0;            ///< so many ids behind the last expert's give the row itself (LongCat-Flash)
  /// Only these: their outputs are added to out, which is filled with zeros when the range begins with 0. Calls for
  /// consecutive ranges give what one call for all gives, to the bit. Not with begin_experts.
  ExpertRange only{};
};
constexpr bool is_gated(const Activation& activation) { return activation.kind != ActivationKind::kRelu2; }

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
  /// Block-diagonal: y[r, g * n + i] = sum over k of x[r, g * k + j] * w[g][i, j], for w.size() groups of one shape
  /// [n, k]. x [rows, groups * k], y [rows, groups * n].
  virtual void multiply_groups(Rows x, std::span<const PackedMatrix> w, Rows y) = 0;
  /// y = x / sqrt(mean(x^2) + eps) * weight over each row; without the last factor where weight is null. x and y may be
  /// the same memory.
  virtual void rms_norm(Rows x, const float* weight, float eps, Rows y) = 0;
  /// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias over each row. x and y may be the same
  /// memory.
  virtual void layer_norm(Rows x, const float* weight, const float* bias, float eps, Rows y) = 0;
  /// x += factor * y, rounded after the product.
  virtual void add_scaled(Rows x, float factor, Rows y) = 0;
  /// x += y.
  void add(Rows x, Rows y) { add_scaled(x, 1.0f, y); }
  /// x *= factor.
  virtual void scale(Rows x, float factor) = 0;
  /// x *= y, element by element.
  virtual void multiply_elements(Rows x, Rows y) = 0;
  /// Clamps every element to [-limit, limit].
  virtual void clamp(Rows x, float limit) = 0;
  /// x = cap * tanh(x / cap).
  virtual void soft_cap(Rows x, float cap) = 0;
  /// out = the activation of gate and up, which may be empty when it is not gated; out may be gate.
  virtual void activate(Rows gate, Rows up, const Activation& activation, Rows out) = 0;
  /// x *= sigmoid(gate), where each element of gate [rows, n] counts for width / n consecutive elements of x
  /// [rows, width]: n may be 1, the number of heads, the width.
  virtual void scale_by_sigmoid(Rows x, Rows gate) = 0;
  /// Each head of out is that of a, then that of b: a [rows, heads * n], b [rows, heads * m], out [rows, heads * (n +
  /// m)].
  virtual void join_heads(Rows a, Rows b, int heads, Rows out) = 0;
  /// Turns each head of x [rows, heads * head_dim] by the angles of positions[r].
  virtual void rope(Rows x, int head_dim, std::span<const int32_t> positions, const RopeTable& table) = 0;
  /// Writes keys [rows, kv_heads * key_dim] and values [rows, kv_heads * value_dim] of the segments' rows into their
  /// caches; no values (width 0) where the views store none. REQUIRES: n_rows <= capacity of the view.
  virtual void kv_append(Rows keys, Rows values, std::span<const AttentionSegment> segments) = 0;
  /// Attention with grouped heads over the caches (which already hold the rows' own keys).
  /// q [rows, n_heads * key_dim], out [rows, n_heads * value_dim]. REQUIRES of each view: all positions up to the last
  /// row fit its capacity, or the window (or chunk) and the segment's other rows do.
  virtual void attention(Rows q, std::span<const AttentionSegment> segments, const AttentionParams& params,
                         Rows out) = 0;
  /// Sparse attention: each row's top_k positions by descending score, equal ones (-0 equals +0) by ascending position,
  /// NaN last; all positions up to the row's own where there are no more than top_k. Sets every word of `chosen`.
  ///   score of a key = sum over the index heads of weights[row, head] * max(0, q[row, head] key)
  /// q [rows, heads * key_dim], weights [rows, heads]; the views have one KV head, all positions and no values. With a
  /// rate above 1 their keys are entries: positions are numbers of entries, and a row's own is its last visible one.
  virtual void select_keys(Rows q, Rows weights, std::span<const AttentionSegment> segments, int64_t top_k,
                           KeySets chosen) = 0;
  /// Hyper-connections (mHC, arXiv 2512.24880). `weights` [rows, n] or [rows, (2 + n) n], in place of their logits:
  ///   read   [n]: sigmoid(logit * scale[0] + base) + eps
  ///   added  [n]: 2 * sigmoid(logit * scale[1] + base)
  ///   mixed  [n, n]: softmax over each row of (logit * scale[2] + base), plus eps; then each column is divided by its
  ///          sum + eps, and after that, iterations - 1 times, each row and then each column
  virtual void stream_weights(Rows weights, const StreamParams& params) = 0;
  /// out = sum over the streams s of read[s] * x_s. x [rows, n * width], out [rows, width].
  virtual void collapse_streams(Rows x, Rows weights, Rows out) = 0;
  /// x_k = added[k] * y + sum over the streams j of mixed[j, k] * x_j.
  virtual void expand_streams(Rows x, Rows weights, Rows y) = 0;
  /// Chooses experts. logits [rows, n_experts] -> ids and weights [rows, top_k]; REQUIRES check_router(params).ok().
  ///   keys:    the logits, which every score orders alike; with a bias, or with groups that are ranked by a sum, the
  ///            scores (softmax: divided by the sum over all experts) plus the bias
  ///   choice:  by descending key, equal ones (-0 equals +0) by ascending id, exactly like a stable sort. NaN ranks
  ///            below every number, and so do the experts of dropped groups. Groups likewise, by their score, where NaN
  ///            keys count as -infinity
  ///   terms:   e^(logit - largest logit) for softmax, where the largest weigh 1 even if they are infinite; else the
  ///            score. 0 for experts that were chosen without a number for a key
  ///   weights: scale * term / divisor, times expert_scale where there is one. The divisor is the sum of the chosen
  ///            terms in the order of choice plus sum_offset, at least sum_floor (softmax: sum_floor times the sum of
  ///            all terms), when renormalised; else the sum of all terms in ascending id for softmax, else 1. A divisor
  ///            of 0 gives 0. So weights are never NaN
  ///   the sparse mixer: scale / the sum, in ascending id, of e^(logit - own logit) over the experts that were not
  ///            chosen before, without those where (own logit - logit) / max(|logit|, own logit) > 2 * jitter
  virtual void route(Rows logits, const RouterParams& params, int32_t* ids, float* weights) = 0;
  /// The weights alone, for ids [rows, top_k] that are given instead of chosen (DeepSeek-V4 looks them up by token);
  /// their order stands for the order of choice. Every id is below n_experts; not for the sparse mixer.
  virtual void weigh(Rows logits, const RouterParams& params, const int32_t* ids, float* weights) = 0;
  /// out[r] = sum over the row's experts, in ascending expert id, of weight * (down(activation(gate x, up x)) + bias).
  /// Rows are grouped by expert. experts[e] may be null where no row chose e; all have one shape. An identity expert,
  /// e >= experts.size(), adds weight * x. ids, weights [rows, top_k]. With weight_on_input the weight multiplies gate
  /// x and up x instead, which then have no biases.
  virtual void experts(Rows x, const int32_t* ids, const float* weights, const ExpertParams& params,
                       std::span<const ExpertWeights* const> experts, Rows out) = 0;

  /// The same in parts, for experts that arrive one after the other: begin_experts, then every chosen expert in exactly
  /// one call of add_experts (but no identity expert), then end_experts, which completes out. x and out must stay until
  /// then, and no other operation may come between. Shapes and encodings of all of `experts` are set from the start,
  /// their data when they are added. Any order for up to BackendLimits::max_apart_rows rows (outputs are kept apart
  /// until the end), else ascending over all calls (outputs are added at once).
  virtual void begin_experts(Rows x, const int32_t* ids, const float* weights, const ExpertParams& params,
                             std::span<const ExpertWeights* const> experts, Rows out) = 0;
  /// `numbers` ascending, each with at least one row.
  virtual void add_experts(std::span<const int32_t> numbers) = 0;
  virtual void end_experts() = 0;

  // Recurrent mixers (compute/recurrent.h). Outputs may be inputs of the same shape, except those of mamba2 and
  // delta_rule. Every row of a call belongs to at most one segment; rows of none are not touched.

  /// out = a * b, element by element.
  virtual void mul(Columns a, Columns b, Columns out) = 0;
  virtual void sigmoid(Columns x, Columns out) = 0;
  /// y = x / sqrt(sum of x^2 + 1e-6) * scale over each head.
  virtual void l2_norm(Columns x, int64_t head_dim, float scale, Columns y) = 0;
  virtual void causal_conv(Columns x, std::span<const RecurrentSegment> segments, const ConvParams& params,
                           Columns out) = 0;
  /// x, out [rows, heads * params.channels].
  virtual void decay(Columns x, const DecayParams& params, Columns out) = 0;
  /// Per value head, with S [key_dim, value_dim]: S *= decay; delta = beta * (v - S^T k); S += k (x) delta; out = S^T
  /// q. out [rows, n_value_heads * value_dim].
  virtual void delta_rule(const DeltaRuleInputs& in, std::span<const RecurrentSegment> segments,
                          const DeltaRuleParams& params, Columns out) = 0;
  /// Per head, with S [head_dim, state_size] and dt = clamp(softplus(dt + dt_bias), dt_min, dt_max):
  /// S = S * e^(dt * a) + dt * x (x) B; out = S C + d * x. out [rows, n_heads * head_dim].
  virtual void mamba2(const Mamba2Inputs& in, std::span<const RecurrentSegment> segments, const Mamba2Params& params,
                      Columns out) = 0;
  /// The entries that the segments' rows complete. kv, gate [rows, params.row_width()], out [.., params.channels].
  virtual void compress(Columns kv, Columns gate, std::span<const CompressSegment> segments,
                        const CompressParams& params, Columns out) = 0;
  /// x, gate, out of one shape.
  virtual void gated_norm(Columns x, Columns gate, const GatedNormParams& params, Columns out) = 0;
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
