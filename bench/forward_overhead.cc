// What one forward pass costs besides the operations of the backend: the decoder's loop, leases, segments, observers.
//
//   forward_overhead [ROWS]     default 32, rows of one sequence
//
// The model is made up in memory: 16 layers of 64 experts as in OLMoE, top 8. All layers share the weights of one, so
// it is small; the decoder cannot tell. Prints JSON: the pass with the least overhead of many.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "compute/cpu/random_data.h"
#include "model/decoder.h"
#include "platform/cpu.h"
#include "timed_backend.h"

namespace colibri::bench {
namespace {

constexpr int kLayers = 16, kExperts = 64, kTopK = 8, kHeads = 16, kHeadDim = 128;
constexpr int kHidden = 2048, kExpertWidth = 1024, kVocabulary = 1024;
constexpr int kPasses = 20;

using Clock = std::chrono::steady_clock;
using compute::Random;
using compute::Weights;

model::ModelSpec olmoe_spec() {
  model::ModelSpec spec;
  spec.family = "olmoe";
  spec.vocab_size = kVocabulary;
  spec.hidden_size = kHidden;
  spec.context = 4096;
  model::RopeSpec rope;
  rope.rotary_dim = kHeadDim;
  spec.ropes.push_back(rope);
  model::AttentionSpec attention;
  attention.n_heads = attention.n_kv_heads = kHeads;
  attention.head_dim = attention.value_dim = kHeadDim;
  attention.rope = 0;
  attention.qk_norm = model::QkNorm::kFullRow;
  attention.scale = 0.088f;
  spec.attentions.push_back(attention);
  spec.moe.router.n_experts = kExperts;
  spec.moe.router.top_k = kTopK;
  spec.moe.expert_width = kExpertWidth;
  model::LayerSpec layer;
  layer.moe = true;
  spec.layers.assign(kLayers, layer);
  return spec;
}

/// Every expert is the same one.
class OneExpertStore final : public store::ExpertStore {
 public:
  explicit OneExpertStore(const ExpertWeights& expert) : ExpertStore(kLayers, kExperts), expert_(expert) {}
  store::ExpertLeases acquire(int moe_layer, std::span<const int32_t> ids, store::ArrivalOrder) override {
    count(moe_layer, ids);
    return store::ExpertLeases(*this);
  }
  store::StoreStatistics statistics() const override { return {}; }

 private:
  bool all_there() const override { return true; }
  Result<std::span<const int32_t>> next() override { return std::span<const int32_t>(); }
  std::span<const ExpertWeights* const> by_expert() const override { return by_expert_; }
  std::span<const int32_t> missing() const override { return {}; }
  void end_lease() override {}

  ExpertWeights expert_;
  std::vector<const ExpertWeights*> by_expert_ = std::vector<const ExpertWeights*>(kExperts, &expert_);
};

/// The weights of one layer and the model made of them.
struct MadeUpModel {
  Random random{1};
  model::ModelSpec spec = olmoe_spec();
  Weights square = compute::random_weights(random, Encoding::kQ8_0, kHidden, kHidden);
  Weights router = compute::random_weights(random, Encoding::kF32, kExperts, kHidden);
  Weights table = compute::random_weights(random, Encoding::kQ8_0, kVocabulary, kHidden);
  Weights gate = compute::random_weights(random, Encoding::kQ8_0, kExpertWidth, kHidden);
  Weights down = compute::random_weights(random, Encoding::kQ8_0, kHidden, kExpertWidth);
  std::vector<float> ones = std::vector<float>(kHidden, 1.0f);
  OneExpertStore experts{{gate.packed, gate.packed, down.packed}};
  model::ModelWeights weights;

  MadeUpModel() {
    weights.embed = weights.head = table.packed;
    weights.final_norm.weight = ones.data();
    model::LayerWeights layer;
    layer.mixer_norm.weight = layer.ffn_norm.weight = ones.data();
    layer.attention.q_norm = layer.attention.k_norm = ones.data();
    layer.attention.q = layer.attention.k = layer.attention.v = layer.attention.output = square.packed;
    layer.moe.router = router.packed;
    weights.layers.assign(kLayers, layer);
  }
};

struct Pass {
  double seconds = 0, operations_seconds = 0;
  double overhead() const { return seconds - operations_seconds; }
};

/// The first pass touches new memory and does not count.
Result<Pass> least_overhead(model::Decoder& decoder, TimedBackend& backend, const model::Batch& batch) {
  Pass best{1e9, 0};
  for (int i = 0; i <= kPasses; ++i) {
    backend.take_seconds();
    const auto start = Clock::now();
    COLIBRI_TRY(decoder.forward(model::Lane::kPrefill, batch, nullptr));
    const Pass pass{std::chrono::duration<double>(Clock::now() - start).count(), backend.take_seconds()};
    if (i > 0 && pass.overhead() < best.overhead()) best = pass;
  }
  return best;
}

Result<Pass> measure(MadeUpModel& made, int64_t rows, int threads) {
  const model::DecoderLimits limits{rows, 1, 1, rows};
  compute::BackendOptions options;
  options.threads = threads;
  options.limits = model::backend_limits(made.spec, limits);
  COLIBRI_ASSIGN(std::unique_ptr<compute::Backend> inner, compute::create_cpu_backend(options));
  TimedBackend backend(std::move(inner));
  COLIBRI_ASSIGN(const kv::KvCache cache, kv::KvCache::create({model::kv_layers(made.spec), rows, rows, 1}));
  COLIBRI_ASSIGN(const kv::StateCache states, kv::StateCache::create({model::state_floats(made.spec), 1, 0}));
  COLIBRI_ASSIGN(model::Decoder decoder,
                 model::Decoder::create({&made.spec, &made.weights, &made.experts, &cache, &states, &backend}, limits));
  std::vector<int32_t> tokens, positions(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) tokens.push_back(static_cast<int32_t>(made.random.below(kVocabulary)));
  std::iota(positions.begin(), positions.end(), 0);
  const model::BatchSegment segment{0, 0, rows, 0};
  return least_overhead(decoder, backend, {tokens, positions, {&segment, 1}});
}

int run(int64_t rows) {
  MadeUpModel made;
  const int threads = platform::usable_cores();
  const auto pass = measure(made, rows, threads);
  if (!pass.ok()) {
    std::fprintf(stderr, "forward_overhead: %s\n", pass.error().message.c_str());
    return 1;
  }
  std::printf(
      "{\"rows\": %lld, \"threads\": %d, \"seconds\": %.6f, \"operations_seconds\": %.6f, "
      "\"overhead_seconds\": %.6f}\n",
      static_cast<long long>(rows), threads, pass->seconds, pass->operations_seconds, pass->overhead());
  return 0;
}

}  // namespace
}  // namespace colibri::bench

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 32;
  if (argc > 2 || rows < 1 || rows > 4096) {
    std::fprintf(stderr, "usage: forward_overhead [ROWS], at most 4096\n");
    return 2;
  }
  return colibri::bench::run(rows);
}
