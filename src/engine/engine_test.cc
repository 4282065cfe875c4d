#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "store/fake_disk.h"

namespace colibri::engine {
namespace {

constexpr const char* kTiny = COLIBRI_SOURCE_DIR "/tests/data/checkpoints/qwen3_moe";

std::unique_ptr<Engine> open_tiny(std::initializer_list<std::pair<const char*, const char*>> settings = {}) {
  OpenOptions options;
  for (const auto& [key, value] : settings) EXPECT_TRUE(apply_setting(key, value, options.settings).ok());
  auto engine = Engine::open(kTiny, options);
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

// Stops at its first layer, and knows whether evaluate() has returned.
class Stopping final : public EvaluationSink {
 public:
  bool wants_logits() const override { return false; }
  bool wants_stop() const override { return told(); }
  bool on_logits(int64_t, int64_t, const float*, int) override { return told(); }
  bool on_routing(int, int64_t, int64_t, const int32_t*, const float*, int) override { return told(); }
  bool told() const {
    if (returned) ++asked_too_late;
    return false;
  }
  std::atomic<bool> returned{false};
  mutable std::atomic<int> asked_too_late{0};
};

TEST(Engine, AnEvaluationThatHasReturnedIsNotAskedAgainThoughItsPassGoesOn) {
  const auto engine = open_tiny({{"parallel", "3"}, {"prefill_share", "0.01"}});
  ASSERT_NE(engine, nullptr);
  const auto decoding = *engine->submit(greedy(prompt_of(1, 4), -1));  // so that prompts are computed in slices
  std::thread reader([&] { drain(*decoding); });
  for (int round = 0; round < 20; ++round) {
    const auto companion = *engine->submit(greedy(prompt_of(round, 60), 1));
    Stopping sink;
    EXPECT_FALSE(engine->evaluate(prompt_of(round, 60), sink).ok());
    sink.returned = true;
    drain(*companion);
    EXPECT_EQ(sink.asked_too_late, 0);
  }
  decoding->cancelled = true;
  engine->wake();
  reader.join();
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

// ---- experts that stream -------------------------------------------------------------------------------------------

/// Bytes [first, end) of a file.
struct FileRange {
  int64_t first = 0, end = 0;
};

/// A disk that cannot read one range of the model's file. The range may change while reads are under way: expert
/// readers fetch ahead of need, so some are even when every sequence has ended.
class BrokenDisk {
 public:
  void break_at(FileRange range) {
    const std::lock_guard lock(mutex_);
    range_ = range;
  }
  void mend() { break_at({}); }

  store::DiskBehaviour operator()(int64_t, int64_t offset) const {
    const std::lock_guard lock(mutex_);
    return {std::chrono::microseconds(0), offset >= range_.first && offset < range_.end ? EIO : 0};
  }

 private:
  mutable std::mutex mutex_;
  FileRange range_;
};

std::unique_ptr<Engine> open_streaming(const store::FakeDisk::Script& script, const std::string& model = kTiny,
                                       const char* prefill_chunk = "auto") {
  OpenOptions options;
  for (const auto& [key, value] :
       {std::pair("expert_memory", "0"), {"parallel", "2"}, {"heat_file", "off"}, {"prefill_chunk", prefill_chunk}})
    EXPECT_TRUE(apply_setting(key, value, options.settings).ok());
  options.byte_source = [&script](const formats::TensorCatalog& catalog) -> std::unique_ptr<store::ByteSource> {
    return std::make_unique<store::FakeDisk>(catalog, script);
  };
  auto engine = Engine::open(model, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *std::move(engine) : nullptr;
}

// The file range of an expert that `a` used and `b` did not.
FileRange expert_of_one(const Engine& engine, const Sequence& a, const Sequence& b) {
  const int n = engine.facts().n_experts;
  const auto catalog = *formats::open_catalog(kTiny);
  for (size_t i = 0; i < a.stats.activations.size(); ++i) {
    if (a.stats.activations[i] == 0 || b.stats.activations[i] != 0) continue;
    const formats::TensorInfo* tensor =
        catalog.find("model.layers." + std::to_string(static_cast<int>(i) / n) + ".mlp.experts." +
                     std::to_string(static_cast<int>(i) % n) + ".up_proj.weight");
    if (tensor != nullptr) return {tensor->offset, tensor->offset + tensor->bytes};
  }
  return {};
}

TEST(StreamingEngine, AnExpertThatCannotBeReadEndsWhoNeedsItAndNobodyElse) {
  BrokenDisk disk;
  const Request one = greedy(prompt_of(1, 3), 4), other = greedy(prompt_of(2, 3), 4);
  const auto whole = open_streaming(std::ref(disk));
  ASSERT_NE(whole, nullptr);
  const auto first = *whole->submit(one), second = *whole->submit(other);
  const Outcome expected_first = drain(*first), expected_second = drain(*second);
  ASSERT_EQ(expected_second.finish_reason, "length");
  const FileRange range = expert_of_one(*whole, *first, *second);
  ASSERT_LT(range.first, range.end) << "both sequences use the same experts; change their prompts";

  disk.break_at(range);
  const auto damaged = open_streaming(std::ref(disk));
  ASSERT_NE(damaged, nullptr);
  for (int round = 0; round < 2; ++round) {
    const auto needs_it = *damaged->submit(one), does_not = *damaged->submit(other);
    EXPECT_EQ(drain(*needs_it).finish_reason, "error");
    const Outcome got = drain(*does_not);
    EXPECT_EQ(got.finish_reason, "length");
    EXPECT_EQ(got.tokens, expected_second.tokens);
  }
  disk.mend();
  EXPECT_EQ(drain(**damaged->submit(one)).tokens, expected_first.tokens);
}

/// Where in a text each expert is used first, by layer and id.
class FirstUses final : public EvaluationSink {
 public:
  bool wants_logits() const override { return false; }
  bool on_logits(int64_t, int64_t, const float*, int) override { return true; }
  bool on_routing(int layer, int64_t first, int64_t n, const int32_t* ids, const float*, int top_k) override {
    for (int64_t i = 0; i < n * top_k; ++i) uses.try_emplace({layer, ids[i]}, first + i / top_k);
    return true;
  }
  std::map<std::pair<int, int>, int64_t> uses;
};

FirstUses uses_of(Engine& engine, const TokenIds& text) {
  FirstUses found;
  EXPECT_TRUE(engine.evaluate(text, found).ok());
  return found;
}

// `other` decodes while `one` reads its prompt token by token; when `one` needs the expert that cannot be read, the
// state of `other` has already moved on. It must go back to the end of its prompt, and on with the same tokens.
void expect_recovery(const std::string& folder, const std::string& before, const std::string& after) {
  SCOPED_TRACE(folder);
  BrokenDisk broken;
  std::atomic<bool> hold{false};
  const store::FakeDisk::Script disk = [&](int64_t file, int64_t offset) {
    while (hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return broken(file, offset);
  };
  const auto engine = open_streaming(disk, folder, "1");
  ASSERT_NE(engine, nullptr);
  const auto tokens_of = [](int seed, int n) {
    TokenIds ids = prompt_of(seed, n);
    for (int32_t& id : ids) id %= 120;
    return ids;
  };
  const Request one = greedy(tokens_of(1, 8), 4);
  const FirstUses of_one = uses_of(*engine, one.prompt);
  const auto catalog = *formats::open_catalog(folder);
  int recovered = 0;
  for (int seed = 2; seed < 300 && recovered < 3; ++seed) {
    const Request other = greedy(tokens_of(seed, 2), 5);
    const Outcome expected = drain(**engine->submit(other));
    TokenIds text = other.prompt;
    text.insert(text.end(), expected.tokens.begin(), expected.tokens.end());
    const FirstUses of_other = uses_of(*engine, text);
    const auto only_one = std::find_if(of_one.uses.begin(), of_one.uses.end(), [&](const auto& use) {
      return use.second >= 2 && of_other.uses.count(use.first) == 0;
    });
    if (only_one == of_one.uses.end()) continue;
    const auto& [layer, expert] = only_one->first;
    const auto* tensor =
        catalog.find(before + std::to_string(layer) + after + std::to_string(expert) + ".up_proj.weight");
    ASSERT_NE(tensor, nullptr);
    broken.break_at({tensor->offset, tensor->offset + tensor->bytes});
    hold = true;
    const auto goes_on = *engine->submit(other), ends = *engine->submit(one);
    hold = false;
    EXPECT_EQ(drain(*ends).finish_reason, "error");
    const Outcome got = drain(*goes_on);
    EXPECT_EQ(got.finish_reason, "length");
    EXPECT_EQ(got.tokens, expected.tokens) << "prompt " << seed;
    broken.mend();
    ++recovered;
  }
  EXPECT_EQ(recovered, 3) << "no prompt without an expert that the other one needs";
}

TEST(StreamingEngine, ARecurrentSequenceKeepsItsTokensWhenAStepFailsForItsNeighbour) {
  const std::string data = COLIBRI_SOURCE_DIR "/tests/data/checkpoints/";
  expect_recovery(data + "qwen3_next", "model.layers.", ".mlp.experts.");
  expect_recovery(data + "nemotron_h", "backbone.layers.", ".mixer.experts.");
}

TEST(StreamingEngine, CancellingWhileTheDiskHangsEndsTheSequenceAtOnce) {
  std::atomic<bool> hang{true};
  const store::FakeDisk::Script slow = [&hang](int64_t, int64_t) {
    while (hang) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return store::DiskBehaviour{};
  };
  const auto engine = open_streaming(slow);
  ASSERT_NE(engine, nullptr);
  const auto sequence = *engine->submit(greedy(prompt_of(1, 3), 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  sequence->cancelled = true;
  EXPECT_EQ(drain(*sequence).finish_reason, "cancelled");
  hang = false;
  EXPECT_EQ(drain(**engine->submit(greedy(prompt_of(1, 3), 4))).finish_reason, "length");
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
