// Steady decode takes no memory: between two tokens, whatever the sampling, nothing is allocated and no page faults.
//
// This program brings its own malloc family, which counts and hands on to the C library's.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstddef>

#include "engine/engine.h"

namespace {

std::atomic<int64_t> g_allocations{0};

}  // namespace

extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}

}  // extern "C"

namespace colibri::engine {
namespace {

constexpr int kWarmUp = 40, kMeasured = 120, kAfter = 20;

// Longer than a tile of keys (64), so that decoding has been through every path that a longer context takes.
Request request(bool sampled) {
  Request r;
  for (int i = 0; i < 90; ++i) r.prompt.push_back((i * 37) % 300);
  r.max_tokens = kWarmUp + kMeasured + kAfter;
  r.ignore_eos = true;
  r.sampling.temperature = sampled ? 0.8 : 0.0;
  if (!sampled) return r;
  r.sampling.top_k = 40;
  r.sampling.top_p = 0.9;
  r.sampling.repetition_penalty = 1.1;
  r.stop = {"a stop string that does not come"};
  return r;
}

void pop_tokens(std::initializer_list<Sequence*> sequences, int n, TokenEvent& event) {
  for (int i = 0; i < n; ++i)
    for (Sequence* sequence : sequences) {
      do {
        ASSERT_TRUE(sequence->stream.pop(-1, event));
        ASSERT_NE(event.kind, EventKind::kEnd) << event.error;
      } while (event.kind != EventKind::kToken);
    }
}

int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

struct Cost {
  int64_t allocations, faults;
};

// What two sequences side by side cost over the measured tokens.
Cost measure(Engine& engine) {
  const auto greedy = *engine.submit(request(false));
  const auto sampled = *engine.submit(request(true));
  TokenEvent event;
  event.text.reserve(256);
  pop_tokens({greedy.get(), sampled.get()}, kWarmUp, event);
  const Cost before{g_allocations, page_faults()};
  pop_tokens({greedy.get(), sampled.get()}, kMeasured, event);
  const Cost cost{g_allocations - before.allocations, page_faults() - before.faults};
  pop_tokens({greedy.get(), sampled.get()}, kAfter - 1, event);
  return cost;
}

std::unique_ptr<Engine> open_with(const char* expert_memory) {
  OpenOptions options;
  for (const auto& [key, value] : {std::pair("parallel", "2"),
                                   {"threads", "2"},
                                   {"context", "512"},
                                   {"expert_memory", expert_memory},
                                   {"heat_file", "off"}})
    EXPECT_TRUE(apply_setting(key, value, options.settings).ok());
  auto engine = Engine::open(std::string(COLIBRI_SOURCE_DIR) + "/models/colibri-tales-14m-q8_0.gguf", options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *std::move(engine) : nullptr;
}

TEST(AllocationCounter, Counts) {
  const int64_t before = g_allocations;
  const std::vector<int> some(1000);
  EXPECT_EQ(g_allocations - before, 1);
  EXPECT_EQ(some.size(), 1000U);
}

class SteadyDecode : public testing::TestWithParam<const char*> {};  // expert_memory

TEST_P(SteadyDecode, AllocatesNothingAndFaultsNoPage) {
  const auto engine = open_with(GetParam());
  ASSERT_NE(engine, nullptr);
  // The system may move pages now and then, which faults; a cause in the engine is there every time.
  int64_t fewest_faults = INT64_MAX;
  for (int attempt = 0; attempt < 4 && fewest_faults > 0; ++attempt) {
    const Cost cost = measure(*engine);
    EXPECT_EQ(cost.allocations, 0);
    fewest_faults = std::min(fewest_faults, cost.faults);
  }
  EXPECT_EQ(fewest_faults, 0);
}

INSTANTIATE_TEST_SUITE_P(ExpertsResidentAndStreaming, SteadyDecode, testing::Values("auto", "50%", "10%"));

}  // namespace
}  // namespace colibri::engine
