#include "engine/engine.h"

#include <gtest/gtest.h>

#include <thread>

namespace colibri::engine {
namespace {

std::unique_ptr<Engine> open_tiny(std::initializer_list<std::pair<const char*, const char*>> settings = {}) {
  OpenOptions options;
  for (const auto& [key, value] : settings) EXPECT_TRUE(apply_setting(key, value, options.settings).ok());
  auto engine = Engine::open(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/qwen3_moe", options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *std::move(engine) : nullptr;
}

Request greedy(TokenIds prompt, int64_t n) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = n;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

struct Outcome {
  TokenIds tokens;
  std::string finish_reason;
};

Outcome drain(Sequence& sequence) {
  Outcome outcome;
  TokenEvent event;
  while (sequence.stream.pop(-1, event)) {
    if (event.kind == EventKind::kToken) outcome.tokens.push_back(event.token);
    if (event.kind != EventKind::kEnd) continue;
    outcome.finish_reason = event.finish_reason;
    return outcome;
  }
  return outcome;
}

TokenIds prompt_of(int seed, int n) {
  TokenIds ids;
  for (int i = 0; i < n; ++i) ids.push_back((seed * 131 + i * 37) % 384);
  return ids;
}

class Collector final : public EvaluationSink {
 public:
  bool wants_logits() const override { return true; }
  bool on_logits(int64_t first, int64_t n, const float* logits, int vocab) override {
    EXPECT_EQ(first * vocab, static_cast<int64_t>(values.size()));
    values.insert(values.end(), logits, logits + n * vocab);
    return true;
  }
  bool on_routing(int, int64_t, int64_t n, const int32_t* ids, const float*, int top_k) override {
    routed.insert(routed.end(), ids, ids + n * top_k);
    return !stop;
  }
  std::vector<float> values;
  std::vector<int32_t> routed;
  bool stop = false;
};

TEST(Engine, ASequenceGivesTheSameTokensAloneAndAmongNeighbours) {
  std::vector<TokenIds> alone;
  {
    const auto engine = open_tiny();
    ASSERT_NE(engine, nullptr);
    for (int i = 0; i < 6; ++i) alone.push_back(drain(**engine->submit(greedy(prompt_of(i, 5 + 9 * i), 12))).tokens);
  }
  const auto engine = open_tiny({{"parallel", "4"}, {"prefill_chunk", "7"}, {"threads", "2"}, {"max_batch_size", "3"}});
  ASSERT_NE(engine, nullptr);
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (int i = 0; i < 6; ++i) sequences.push_back(*engine->submit(greedy(prompt_of(i, 5 + 9 * i), 12)));
  for (size_t i = 0; i < 6; ++i) {
    const Outcome outcome = drain(*sequences[i]);
    EXPECT_EQ(outcome.tokens, alone[i]) << i;
    EXPECT_EQ(outcome.finish_reason, "length");
  }
}

TEST(Engine, EvaluateAndGenerateInParallelThreadsDoNotDisturbEachOther) {
  const auto engine = open_tiny({{"parallel", "3"}, {"threads", "2"}, {"prefill_chunk", "16"}});
  ASSERT_NE(engine, nullptr);
  Collector reference;
  ASSERT_TRUE(engine->evaluate(prompt_of(9, 50), reference).ok());
  const TokenIds expected = drain(**engine->submit(greedy(prompt_of(3, 20), 10))).tokens;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Collector collector;
      EXPECT_TRUE(engine->evaluate(prompt_of(9, 50), collector).ok());
      EXPECT_EQ(collector.values, reference.values);
    });
    threads.emplace_back([&] { EXPECT_EQ(drain(**engine->submit(greedy(prompt_of(3, 20), 10))).tokens, expected); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Engine, ACancelledSequenceEndsAndItsSlotIsUsedAgain) {
  const auto engine = open_tiny();
  ASSERT_NE(engine, nullptr);
  const auto endless = *engine->submit(greedy(prompt_of(1, 4), -1));
  TokenEvent event;
  ASSERT_TRUE(endless->stream.pop(-1, event));
  endless->cancelled = true;
  engine->wake();
  EXPECT_EQ(drain(*endless).finish_reason, "cancelled");
  EXPECT_EQ(drain(**engine->submit(greedy(prompt_of(2, 4), 3))).tokens.size(), 3u);
}

TEST(Engine, ASequenceNobodyReadsPausesAndDoesNotHoldUpOthers) {
  const auto engine = open_tiny({{"parallel", "2"}});
  ASSERT_NE(engine, nullptr);
  const auto unread = *engine->submit(greedy(prompt_of(1, 4), -1));
  EXPECT_EQ(drain(**engine->submit(greedy(prompt_of(2, 4), 20))).tokens.size(), 20u);
  EXPECT_EQ(drain(*unread).finish_reason, "length");  // resumes when it is read
}

TEST(Engine, AStoppedEvaluationIsCancelled) {
  const auto engine = open_tiny({{"prefill_chunk", "4"}});
  ASSERT_NE(engine, nullptr);
  Collector collector;
  collector.stop = true;
  const Status status = engine->evaluate(prompt_of(1, 30), collector);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
}

TEST(Engine, ClosingWithWorkInFlightEndsEverything) {
  auto engine = open_tiny({{"parallel", "2"}});
  ASSERT_NE(engine, nullptr);
  const auto first = *engine->submit(greedy(prompt_of(1, 4), -1));
  const auto second = *engine->submit(greedy(prompt_of(1, 100), -1));
  engine.reset();
}

TEST(Engine, RequestsThatMakeNoSenseAreRefusedBeforeAnyWork) {
  const auto engine = open_tiny({{"context", "32"}});
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->submit(greedy({}, 1)).error().code, ErrorCode::kUsage);
  EXPECT_EQ(engine->submit(greedy({384}, 1)).error().code, ErrorCode::kUsage);
  EXPECT_EQ(engine->submit(greedy({-1}, 1)).error().code, ErrorCode::kUsage);
  EXPECT_EQ(engine->submit(greedy(prompt_of(1, 32), 1)).error().code, ErrorCode::kContextOverflow);
  EXPECT_EQ(drain(**engine->submit(greedy(prompt_of(1, 31), 5))).tokens.size(), 1u);
  EXPECT_EQ(drain(**engine->submit(greedy(prompt_of(1, 32), 0))).finish_reason, "length");
}

TEST(Engine, ABudgetThatIsTooSmallIsRefusedWithTheNumbers) {
  OpenOptions options;
  ASSERT_TRUE(apply_setting("memory", "1M", options.settings).ok());
  const auto engine = Engine::open(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/qwen3_moe", options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kDoesNotFit);
  EXPECT_NE(engine.error().message.find("1.0 MiB"), std::string::npos) << engine.error().message;
}

}  // namespace
}  // namespace colibri::engine
