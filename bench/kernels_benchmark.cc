// Every kernel alone, through the backend's interface, with its share of the measured peak of its instruction set.
//
//   kernels_benchmark [--isa=LEVEL] [--threads=N] [flags of Google Benchmark, such as --benchmark_filter=matmul]
//
// `share` is operations over the peak of the 8-bit dot products (quantised weights) or of the float multiply-adds; for
// one row, where memory decides, look at the bytes per second instead. The weights of a case are a few megabytes and
// stay in a cache, so this is the speed of the kernels and not that of the memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "compute/backend.h"
#include "compute/cpu/random_data.h"
#include "peak_timing.h"
#include "tensor/packed.h"

namespace colibri::bench {
namespace {

using compute::Backend;
using compute::Block;
using compute::Random;
using compute::Weights;

constexpr int64_t kRowCounts[] = {1, 4, 16, 64};
constexpr int64_t kHidden = 2048, kMaxRows = 64;
constexpr int64_t kExpertInputs = 1024, kExpertWidth = 512;
constexpr int kExperts = 16, kTopK = 4;
constexpr int kHeads = 32, kKvHeads = 4, kHeadDim = 128;
constexpr int64_t kQueryWidth = int64_t{kHeads} * kHeadDim, kKeyWidth = int64_t{kKvHeads} * kHeadDim;
constexpr int64_t kPositions[] = {512, 4096};
constexpr int kLatentHeads = 64, kLatentKey = 576, kLatentValue = 512;  // multi-head latent attention
constexpr int kIndexHeads = 64, kIndexKey = 128, kIndexTopK = 2048;     // of its sparse form
constexpr int64_t kRouterRows = 32;
constexpr int kMaxRouterExperts = 512, kMaxRouterTopK = 10;

compute::BackendLimits limits() {
  compute::BackendLimits l;
  l.max_rows = kPositions[1];
  l.max_inputs = kHidden;
  l.max_expert_width = kExpertWidth;
  l.max_expert_inputs = kExpertInputs;
  l.n_experts = kMaxRouterExperts;
  l.top_k = kMaxRouterTopK;
  l.key_dim = kLatentKey;
  l.value_dim = kLatentValue;
  l.n_heads = kHeads;
  l.n_kv_heads = kKvHeads;
  l.index_heads = kIndexHeads;
  l.index_key_dim = kIndexKey;
  l.index_positions = kPositions[1];
  return l;
}

/// The backend under test and what its level could do at best.
struct Subject {
  std::unique_ptr<Backend> backend;
  double peak_int8 = 0, peak_f32 = 0;  ///< operations per second
};

/// The peak of the level, or of the next lower one that has such a loop.
double peak_of(const std::string& isa, Arithmetic arithmetic, int threads) {
  bool reached = false;
  for (const PeakLoop& loop : peak_loops()) {
    reached = reached || isa == loop.isa;
    if (reached && loop.arithmetic == arithmetic) return peak_operations_per_second(loop, threads);
  }
  return 0;
}

Result<Subject> open_subject(const std::string& isa, int threads) {
  compute::BackendOptions options;
  options.isa = isa;
  options.threads = threads;
  options.limits = limits();
  Subject subject;
  COLIBRI_ASSIGN(subject.backend, compute::create_cpu_backend(options));
  subject.peak_int8 = peak_of(subject.backend->isa(), Arithmetic::kInt8, threads);
  subject.peak_f32 = peak_of(subject.backend->isa(), Arithmetic::kF32, threads);
  return subject;
}

/// What one iteration does, for the counters. 0: does not count.
struct Amount {
  double operations = 0, peak = 0, bytes = 0;
};

void measure(benchmark::State& state, const Amount& amount, const std::function<void()>& body) {
  using benchmark::Counter;
  for (auto _ : state) body();
  const auto total = [&state](double each) { return each * static_cast<double>(state.iterations()); };
  if (amount.operations > 0) state.counters["op"] = Counter(total(amount.operations), Counter::kIsRate);
  if (amount.peak > 0) state.counters["share"] = Counter(total(amount.operations / amount.peak), Counter::kIsRate);
  if (amount.bytes > 0) state.counters["byte"] = Counter(total(amount.bytes), Counter::kIsRate);
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime();
}

std::string with(const std::string& name, std::string_view encoding, int64_t rows) {
  return name + "/" + std::string(encoding) + "/" + std::to_string(rows);
}

double peak_for(const Subject& subject, Encoding encoding) {
  return has_codes(encoding) ? subject.peak_int8 : subject.peak_f32;
}

void add_matmuls(Subject& subject) {
  for (const Encoding encoding : compute::kEncodings) {
    for (const int64_t rows : kRowCounts) {
      add(with("matmul", name(encoding), rows), [&subject, encoding, rows](benchmark::State& state) {
        Random random(1);
        const Weights weights = compute::random_weights(random, encoding, kHidden, kHidden);
        Block x = compute::random_block(random, rows, kHidden), y(rows, kHidden);
        const Amount amount{2.0 * static_cast<double>(rows * kHidden * kHidden), peak_for(subject, encoding),
                            static_cast<double>(packed_bytes(encoding, kHidden, kHidden))};
        measure(state, amount, [&] { subject.backend->matmul(x.rows(), weights.packed, nullptr, y.rows()); });
      });
    }
  }
}

/// Experts of one layer, each with weights of its own.
struct Layer {
  std::vector<Weights> matrices;
  std::vector<ExpertWeights> experts;
  std::vector<const ExpertWeights*> pointers;

  Layer(Random& random, Encoding encoding) {
    for (int i = 0; i < kExperts; ++i) {
      matrices.push_back(compute::random_weights(random, encoding, kExpertWidth, kExpertInputs));
      matrices.push_back(compute::random_weights(random, encoding, kExpertWidth, kExpertInputs));
      matrices.push_back(compute::random_weights(random, encoding, kExpertInputs, kExpertWidth));
    }
    for (size_t i = 0; i < matrices.size(); i += 3)
      experts.push_back({matrices[i].packed, matrices[i + 1].packed, matrices[i + 2].packed});
    for (const ExpertWeights& expert : experts) pointers.push_back(&expert);
  }
};

/// kTopK different experts for every row.
std::vector<int32_t> random_choices(Random& random, int64_t rows) {
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = random.below(kExperts);
    for (int64_t i = 0; i < kTopK; ++i) ids.push_back(static_cast<int32_t>((first + i * 5) % kExperts));
  }
  return ids;
}

void add_experts(Subject& subject) {
  for (const Encoding encoding : compute::kEncodings) {
    for (const int64_t rows : kRowCounts) {
      add(with("experts", name(encoding), rows), [&subject, encoding, rows](benchmark::State& state) {
        Random random(2);
        const Layer layer(random, encoding);
        const std::vector<int32_t> ids = random_choices(random, rows);
        const std::vector<float> weights(ids.size(), 0.25f);
        Block x = compute::random_block(random, rows, kExpertInputs), out(rows, kExpertInputs);
        const Amount amount{6.0 * static_cast<double>(rows * kTopK * kExpertInputs * kExpertWidth),
                            peak_for(subject, encoding), 0};
        measure(state, amount, [&] {
          subject.backend->experts(x.rows(), ids.data(), weights.data(), {kTopK}, layer.pointers, out.rows());
        });
      });
    }
  }
}

/// A cache filled with `positions` keys and values.
void fill_cache(Backend& backend, Random& random, compute::Cache& cache, int64_t positions) {
  Block keys = compute::random_block(random, positions, kKeyWidth);
  const compute::AttentionSegment all{cache.view, 0, positions, 0};
  backend.kv_append(keys.rows(), keys.rows(), {&all, 1});
}

void add_attention(Subject& subject, KvType type, int64_t positions, int64_t rows) {
  const std::string kind = "attention/" + std::string(name(type));
  add(with(kind, std::to_string(positions), rows), [&subject, type, positions, rows](benchmark::State& state) {
    Random random(3);
    compute::Cache cache(type, kKvHeads, kHeadDim, positions);
    fill_cache(*subject.backend, random, cache, positions);
    Block q = compute::random_block(random, rows, kQueryWidth), out(rows, kQueryWidth);
    const compute::AttentionSegment last{cache.view, 0, rows, positions - rows};
    const double seen = static_cast<double>(positions) - static_cast<double>(rows - 1) / 2;
    const Amount amount{4.0 * static_cast<double>(rows * kQueryWidth) * seen, subject.peak_f32,
                        static_cast<double>(cache.view.bytes())};
    measure(state, amount, [&] { subject.backend->attention(q.rows(), {&last, 1}, {kHeads, 0.1f}, out.rows()); });
  });
}

/// One latent for all heads, 4096 positions.
void add_latent_attention(Subject& subject, KvType type, int64_t rows) {
  add(with("latent_attention", name(type), rows), [&subject, type, rows](benchmark::State& state) {
    Random random(3);
    const int64_t positions = kPositions[1];
    compute::Cache cache(KvView{nullptr, type, positions, 1, kLatentKey, kLatentValue, true});
    Block keys = compute::random_block(random, positions, kLatentKey);
    const compute::AttentionSegment all{cache.view, 0, positions, 0}, last{cache.view, 0, rows, positions - rows};
    subject.backend->kv_append(keys.rows(), Rows{}, {&all, 1});
    Block q = compute::random_block(random, rows, kLatentHeads * kLatentKey), out(rows, kLatentHeads * kLatentValue);
    const double operations = 2.0 * static_cast<double>(rows * (q.width + out.width)) * static_cast<double>(positions);
    measure(state, {operations, subject.peak_f32, static_cast<double>(cache.view.bytes())}, [&] {
      subject.backend->attention(q.rows(), {&last, 1}, {kLatentHeads, 0.05f}, out.rows());
    });
  });
}

void add_select_keys(Subject& subject, KvType type) {
  add(with("select_keys", name(type), kIndexTopK), [&subject, type](benchmark::State& state) {
    Random random(3);
    const int64_t positions = kPositions[1];
    compute::Cache cache(KvView{nullptr, type, positions, 1, kIndexKey, 0});
    Block keys = compute::random_block(random, positions, kIndexKey);
    const compute::AttentionSegment all{cache.view, 0, positions, 0}, last{cache.view, 0, 1, positions - 1};
    subject.backend->kv_append(keys.rows(), Rows{}, {&all, 1});
    Block q = compute::random_block(random, 1, kIndexHeads * kIndexKey),
          weights = compute::random_block(random, 1, kIndexHeads);
    std::vector<uint64_t> chosen(static_cast<size_t>(positions / 64));
    const compute::KeySets sets{chosen.data(), positions / 64};
    measure(state,
            {2.0 * static_cast<double>(q.width * positions), subject.peak_f32, static_cast<double>(cache.view.bytes())},
            [&] {
              subject.backend->select_keys(q.rows(), weights.rows(), {&last, 1}, kIndexTopK, sets);
            });
  });
}

void add_attentions(Subject& subject) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
    for (const int64_t positions : kPositions)
      for (const int64_t rows : {int64_t{1}, kMaxRows}) add_attention(subject, type, positions, rows);
    for (const int64_t rows : {1, 8}) add_latent_attention(subject, type, rows);
    add_select_keys(subject, type);
  }
}

void add_router(Subject& subject) {
  struct Kind {
    int experts, top_k;
  };
  for (const Kind kind : {Kind{64, 2}, Kind{64, 8}, Kind{128, 8}, Kind{kMaxRouterExperts, kMaxRouterTopK}}) {
    add(with("route", std::to_string(kind.experts), kind.top_k), [&subject, kind](benchmark::State& state) {
      Random random(4);
      Block logits = compute::random_block(random, kRouterRows, kind.experts, 4.0f);
      std::vector<int32_t> ids(static_cast<size_t>(kRouterRows * kind.top_k));
      std::vector<float> weights(ids.size());
      compute::RouterParams params;
      params.n_experts = kind.experts;
      params.top_k = kind.top_k;
      params.renormalise = true;
      measure(state, {}, [&] { subject.backend->route(logits.rows(), params, ids.data(), weights.data()); });
      state.counters["row"] = benchmark::Counter(static_cast<double>(kRouterRows * state.iterations()),
                                                 benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    });
  }
}

/// What goes over rows: its speed is that of the cache, so bytes count.
void add_row_operations(Subject& subject) {
  struct Buffers {
    Random random{5};
    Block x = compute::random_block(random, kMaxRows, kHidden), y = compute::random_block(random, kMaxRows, kHidden),
          out = x;
    std::vector<int32_t> positions = std::vector<int32_t>(static_cast<size_t>(kMaxRows), 7);
    Block angles = compute::random_block(random, 16, kHeadDim);
  };
  using Body = void (*)(Backend&, Buffers&);
  const std::map<std::string, Body> bodies = {
      {"rms_norm", [](Backend& b, Buffers& d) { b.rms_norm(d.x.rows(), d.y.values.data(), 1e-6f, d.out.rows()); }},
      {"silu_mul", [](Backend& b, Buffers& d) { b.activate(d.x.rows(), d.y.rows(), {}, d.out.rows()); }},
      {"add", [](Backend& b, Buffers& d) { b.add(d.out.rows(), d.y.rows()); }},
      {"rope", [](Backend& b, Buffers& d) {
         const compute::RopeTable table{false, kHeadDim, d.angles.values.data(), d.angles.values.data()};
         b.rope(d.out.rows(), kHeadDim, d.positions, table);
       }}};
  for (const auto& [operation, body] : bodies) {
    add(operation + "/" + std::to_string(kMaxRows), [&subject, body = body](benchmark::State& state) {
      Buffers buffers;
      measure(state, {0, 0, static_cast<double>(kMaxRows * kHidden) * sizeof(float)},
              [&] { body(*subject.backend, buffers); });
    });
  }
}

/// Takes "--NAME=VALUE" out of the arguments.
std::string take_flag(int& argc, char** argv, const std::string& name, const std::string& otherwise) {
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with(start)) continue;
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    return argument.substr(start.size());
  }
  return otherwise;
}

int run(int argc, char** argv) {
  const std::string isa = take_flag(argc, argv, "isa", "auto");
  const std::string threads = take_flag(argc, argv, "threads", "1");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  auto subject = open_subject(isa, std::max(1, std::atoi(threads.c_str())));
  if (!subject.ok()) {
    std::fprintf(stderr, "kernels_benchmark: %s\n", subject.error().message.c_str());
    return 1;
  }
  benchmark::AddCustomContext("isa", subject->backend->isa());
  benchmark::AddCustomContext("threads", threads);
  add_matmuls(*subject);
  add_experts(*subject);
  add_attentions(*subject);
  add_router(*subject);
  add_row_operations(*subject);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace colibri::bench

int main(int argc, char** argv) { return colibri::bench::run(argc, argv); }
