// What many users together must never notice: neighbours, slices, prefixes that were computed before.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "engine/engine.h"

namespace colibri::engine {
namespace {

using SettingList = std::initializer_list<std::pair<const char*, const char*>>;

std::unique_ptr<Engine> open_model(const std::string& name, SettingList settings) {
  OpenOptions options;
  for (const auto& [key, value] : settings) EXPECT_TRUE(apply_setting(key, value, options.settings).ok()) << key;
  auto engine = Engine::open(COLIBRI_SOURCE_DIR "/tests/data/checkpoints/" + name, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *std::move(engine) : nullptr;
}

TokenIds prompt_of(int seed, int n) {
  TokenIds ids;
  for (int i = 0; i < n; ++i) ids.push_back(1 + (seed * 29 + i * i + i * 37) % 100);
  return ids;
}

Request greedy(TokenIds prompt, int64_t n) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = n;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

struct Answer {
  TokenIds tokens, prompt;
  std::vector<float> logprobs, prompt_logprobs;
  std::vector<std::vector<sampling::TokenLogprob>> top;
  int64_t cached = 0;
  std::string reason;
};

Answer read(Sequence& sequence) {
  Answer answer;
  TokenEvent event;
  while (sequence.stream.pop(-1, event) && event.kind != EventKind::kEnd) {
    if (event.kind == EventKind::kToken) {
      answer.tokens.push_back(event.token);
      answer.logprobs.push_back(event.logprob);
      answer.top.push_back(event.top);
    }
    if (event.kind == EventKind::kPromptToken) {
      answer.prompt.push_back(event.token);
      answer.prompt_logprobs.push_back(event.logprob);
    }
  }
  answer.cached = event.prompt_cached;
  answer.reason = event.finish_reason;
  return answer;
}

Answer ask(Engine& engine, Request request) {
  auto sequence = engine.submit(std::move(request));
  EXPECT_TRUE(sequence.ok()) << sequence.error().message;
  return sequence.ok() ? read(**sequence) : Answer{};
}

// The answers of a conversation whose turns repeat what was said before.
TokenIds conversation(Engine& engine, std::vector<int64_t>* cached) {
  TokenIds said = prompt_of(3, 140), answers;
  for (int turn = 0; turn < 3; ++turn) {
    const Answer answer = ask(engine, greedy(said, 6));
    if (cached != nullptr) cached->push_back(answer.cached);
    answers.insert(answers.end(), answer.tokens.begin(), answer.tokens.end());
    said.insert(said.end(), answer.tokens.begin(), answer.tokens.end());
    const TokenIds more = prompt_of(50 + turn, 20);
    said.insert(said.end(), more.begin(), more.end());
  }
  return answers;
}

class Serving : public testing::TestWithParam<const char*> {};

// Plain, latent, windows, compressed, delta rule, Mamba-2, short convolutions, experts beside a dense MLP, weights on
// inputs.
INSTANTIATE_TEST_SUITE_P(Families, Serving,
                         testing::Values("qwen3_moe", "deepseek_v2", "gpt_oss", "deepseek_v4", "qwen3_next",
                                         "nemotron_h", "lfm2_moe", "glm_moe_dsa", "longcat_flash", "gemma4", "llama4",
                                         "deepseek_v3"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Serving, APrefixThatWasComputedBeforeGivesTheSameTokens) {
  const auto plain = open_model(GetParam(), {{"context", "250"}, {"prefill_chunk", "48"}});
  const auto caching = open_model(GetParam(), {{"context", "250"}, {"prefill_chunk", "32"}, {"prefix_cache", "64M"}});
  ASSERT_TRUE(plain && caching);
  std::vector<int64_t> cached;
  const TokenIds expected = conversation(*plain, nullptr);
  EXPECT_EQ(conversation(*caching, &cached), expected);
  EXPECT_EQ(cached[0], 0);
  EXPECT_GE(cached[1], 128);
  EXPECT_GE(cached[2], cached[1]);
  cached.clear();
  EXPECT_EQ(conversation(*caching, &cached), expected);  // all of it was there
  EXPECT_GE(cached[0], 128);
}

TEST_P(Serving, PromptsInSlicesAmongThoseWhoDecodeGiveTheSameTokens) {
  const auto alone = open_model(GetParam(), {{"context", "200"}});
  const auto busy = open_model(GetParam(), {{"context", "200"},
                                            {"parallel", "4"},
                                            {"prefill_chunk", "24"},
                                            {"threads", "2"},
                                            {"prefix_cache", "16M"},
                                            {"prefill_share", "0.01"}});
  ASSERT_TRUE(alone && busy);
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (int i = 0; i < 8; ++i) sequences.push_back(*busy->submit(greedy(prompt_of(i % 5, 10 + 13 * i), 9)));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(read(*sequences[static_cast<size_t>(i)]).tokens,
              ask(*alone, greedy(prompt_of(i % 5, 10 + 13 * i), 9)).tokens)
        << i;
}

TEST(Serving, PrefixesThatMadeRoomAreComputedAgain) {
  const auto plain = open_model("qwen3_moe", {{"context", "250"}});
  const auto small = open_model("qwen3_moe", {{"context", "250"}, {"prefix_cache", "260K"}});
  ASSERT_TRUE(plain && small);
  ASSERT_LE(small->plan().prefixes.n_blocks, 8);
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(ask(*small, greedy(prompt_of(i, 200), 4)).tokens, ask(*plain, greedy(prompt_of(i, 200), 4)).tokens);
}

TEST(Serving, ClientsWithDifferentKeysShareNoPrefix) {
  const auto engine = open_model("qwen3_moe", {{"context", "250"}, {"prefix_cache", "16M"}});
  ASSERT_NE(engine, nullptr);
  const auto cached = [&](const char* key) {
    Request request = greedy(prompt_of(1, 150), 2);
    request.prefix_key = key;
    return ask(*engine, std::move(request)).cached;
  };
  EXPECT_EQ(cached("one"), 0);
  EXPECT_EQ(cached("two"), 0);
  EXPECT_EQ(cached("one"), 128);
}

TEST(Serving, TheSamePromptAtOnceIsComputedOnce) {
  const auto engine = open_model("qwen3_moe", {{"context", "250"}, {"prefix_cache", "16M"}, {"parallel", "4"}});
  ASSERT_NE(engine, nullptr);
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (int i = 0; i < 4; ++i) sequences.push_back(*engine->submit(greedy(prompt_of(1, 200), 3)));
  int64_t cached = 0;
  for (const auto& s : sequences) cached += read(*s).cached;
  EXPECT_EQ(cached, 3 * 192);
}

TEST(Serving, PrefixesOutliveTheEngineInTheirFolder) {
  const std::string folder = testing::TempDir() + "colibri_serving_prefixes";
  std::string command = "rm -rf '" + folder + "' && mkdir '" + folder + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  TokenIds first;
  for (int run = 0; run < 2; ++run) {
    const auto engine =
        open_model("qwen3_next", {{"context", "250"}, {"prefix_cache", "16M"}, {"prefix_folder", folder.c_str()}});
    ASSERT_NE(engine, nullptr);
    const Answer answer = ask(*engine, greedy(prompt_of(1, 200), 5));
    EXPECT_EQ(answer.cached, run == 0 ? 0 : 192);
    if (run == 0) first = answer.tokens;
    EXPECT_EQ(answer.tokens, first);
    ASSERT_TRUE(engine->save_prefixes().ok());
  }
  ASSERT_EQ(std::system(("rm -rf '" + folder + "'").c_str()), 0);
}

TEST(Serving, LogProbabilitiesAreThoseOfTheLogitsForPromptAndAnswer) {
  const auto engine = open_model("qwen3_moe", {{"context", "200"}, {"prefill_chunk", "16"}});
  ASSERT_NE(engine, nullptr);
  Request request = greedy(prompt_of(2, 50), 5);
  request.logprobs = 3;
  request.echo = true;
  const Answer answer = ask(*engine, request);
  EXPECT_EQ(answer.prompt, request.prompt);
  ASSERT_EQ(answer.prompt_logprobs.size(), 50u);
  EXPECT_TRUE(std::isnan(answer.prompt_logprobs[0]));
  for (size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(answer.top[i].size(), 3u);
    EXPECT_EQ(answer.top[i][0].token, answer.tokens[i]);  // greedy
    EXPECT_EQ(answer.top[i][0].logprob, answer.logprobs[i]);
    EXPECT_GE(answer.top[i][0].logprob, answer.top[i][1].logprob);
  }
  // The answer as a prompt has the same log probabilities.
  Request whole = greedy(request.prompt, 0);
  whole.prompt.insert(whole.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  whole.logprobs = 0;
  whole.echo = true;
  const Answer again = ask(*engine, whole);
  EXPECT_EQ(again.reason, "length");
  EXPECT_TRUE(again.tokens.empty());
  for (size_t i = 1; i < 50; ++i) EXPECT_EQ(again.prompt_logprobs[i], answer.prompt_logprobs[i]) << i;
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(again.prompt_logprobs[50 + i], answer.logprobs[i]) << i;
}

TEST(Serving, AnEchoThatNobodyReadsWaitsAndLosesNothing) {
  const auto engine = open_model("qwen3_moe", {{"context", "1500"}, {"prefill_chunk", "1"}, {"parallel", "2"}});
  ASSERT_NE(engine, nullptr);
  Request request = greedy(prompt_of(4, 1200), 1);
  request.echo = true;
  const auto sequence = *engine->submit(request);
  EXPECT_EQ(ask(*engine, greedy(prompt_of(1, 20), 3)).reason, "length");  // nobody else waits for the reader
  EXPECT_EQ(read(*sequence).prompt, request.prompt);
}

TEST(Serving, NotifyTellsOfEveryArrivalInAnEmptyStream) {
  const auto engine = open_model("qwen3_moe", {{"context", "200"}});
  ASSERT_NE(engine, nullptr);
  std::mutex mutex;
  std::condition_variable told;
  int calls = 0;
  Request request = greedy(prompt_of(1, 20), 30);
  request.notify = [&] {
    const std::lock_guard lock(mutex);
    ++calls;
    told.notify_one();
  };
  const auto sequence = *engine->submit(std::move(request));
  TokenEvent event;
  int seen = 0;
  for (event.kind = EventKind::kProgress; event.kind != EventKind::kEnd;) {  // never waits but for being told
    std::unique_lock lock(mutex);
    ASSERT_TRUE(told.wait_for(lock, std::chrono::seconds(20), [&] { return calls > seen; }));
    seen = calls;
    lock.unlock();
    while (event.kind != EventKind::kEnd && sequence->stream.pop(0, event)) {
    }
  }
  sequence->stream.on_arrival({});
}

TEST(Serving, AConstrainedAnswerIsWholeWhateverIsSampled) {
  OpenOptions options;
  auto opened = Engine::open(COLIBRI_SOURCE_DIR "/models/colibri-tales-14m-q8_0.gguf", options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  Engine& engine = **opened;
  for (int seed = 0; seed < 6; ++seed) {
    Request request;
    request.prompt = engine.text()->tokenizer()->encode("Once upon a time");
    request.max_tokens = 400;
    request.sampling.temperature = seed == 0 ? 0 : 1.5;
    request.sampling.seed = static_cast<uint64_t>(seed);
    request.constraint = R"({"schema": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 1, "maximum": 99}}, "required": ["name", "age"]}})";
    std::string text;
    auto sequence = engine.submit(std::move(request));
    ASSERT_TRUE(sequence.ok()) << sequence.error().message;
    TokenEvent event;
    for (event.kind = EventKind::kToken; event.kind != EventKind::kEnd;)
      if ((*sequence)->stream.pop(-1, event)) text += event.text;
    EXPECT_STREQ(event.finish_reason, "stop") << text;
    const auto json = parse_json(text);
    ASSERT_TRUE(json.ok()) << text;
    EXPECT_TRUE(json->find("name")->is_string());
    EXPECT_GE(json->find("age")->as_int(), 1);
    EXPECT_LE(json->find("age")->as_int(), 99);
  }
  Request impossible;
  impossible.prompt = {1};
  impossible.constraint = R"({"schema": {"not": {}}})";
  const auto refused = engine.submit(std::move(impossible));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
}

TEST(Serving, WhereExpertsAreIsWhatTheStoreSays) {
  const auto engine = open_model("qwen3_moe", {{"context", "200"}, {"expert_memory", "50%"}});
  ASSERT_NE(engine, nullptr);
  ask(*engine, greedy(prompt_of(1, 60), 5));
  const auto n = static_cast<size_t>(engine->facts().n_moe_layers) * static_cast<size_t>(engine->facts().n_experts);
  std::vector<uint64_t> activations(n);
  std::vector<store::ExpertStore::Place> places(n);
  engine->experts(activations, places);
  const auto resident = std::count(places.begin(), places.end(), store::ExpertStore::Place::kResident);
  EXPECT_EQ(resident, engine->store_statistics().resident);
  EXPECT_GT(resident, 0);
  EXPECT_LT(resident, static_cast<int64_t>(n));
  uint64_t total = 0;
  for (const uint64_t a : activations) total += a;
  EXPECT_EQ(total, 64 * static_cast<uint64_t>(engine->facts().n_moe_layers) *
                       static_cast<uint64_t>(engine->spec().moe.router.top_k));
}

TEST(Serving, MetricsCountWhatHappened) {
  const auto engine = open_model("qwen3_moe", {{"context", "200"}, {"parallel", "2"}, {"prefix_cache", "16M"}});
  ASSERT_NE(engine, nullptr);
  for (int i = 0; i < 3; ++i) ask(*engine, greedy(prompt_of(1, 100), 7));
  const Json metrics = engine->metrics_json();
  std::map<std::string, double> values;
  for (const Json& metric : metrics.as_array()) {
    EXPECT_FALSE(metric.find("help")->as_string().empty());
    for (const Json& sample : metric.find("samples")->as_array())
      if (const Json* value = sample.find("value")) values[metric.find("name")->as_string()] += value->as_double();
  }
  EXPECT_EQ(values["generated_tokens_total"], 21);
  EXPECT_EQ(values["prompt_tokens_total"], 100 + 2 * 36);
  EXPECT_EQ(values["prompt_tokens_cached_total"], 2 * 64);
  EXPECT_EQ(values["requests_ended_total"], 3);
  EXPECT_GT(values["step_cause_seconds_total"], 0);
}

}  // namespace
}  // namespace colibri::engine
