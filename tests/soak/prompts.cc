#include "prompts.h"

#include <random>

namespace colibri::soak {
namespace {

constexpr const char* kTexts[] = {"Once upon a time", "def main(", "In the beginning God created",
                                  "<|im_start|>user\nWhat is a bird?<|im_end|>\n<|im_start|>assistant\n",
                                  "It is a truth universally acknowledged, that"};
constexpr size_t kLengths[] = {1, 2, 31, 65, 160};  // around what decides how a pass meets its experts
constexpr size_t kWide = 5, kWideLength = 320;

api::TokenIds mixed_tokens(size_t n, int32_t vocab_size, std::mt19937_64& random) {
  std::uniform_int_distribution<int32_t> token(0, vocab_size - 1);
  api::TokenIds ids(n);
  for (int32_t& id : ids) id = token(random);
  return ids;
}

api::Outcome<api::TokenIds> answer(api::Engine& engine, const Prompt& prompt) {
  auto sequence = engine.submit(prompt.request(kAnswerTokens));
  if (!sequence) return sequence.error();
  api::TokenIds ids;
  for (;;) {
    const auto event = sequence->next();
    if (!event) return event.error();
    if (event->kind == COLIBRI_EVENT_TOKEN) ids.push_back(event->token);
    if (event->kind != COLIBRI_EVENT_END) continue;
    if (event->finish_reason == "length" && ids.size() == size_t{kAnswerTokens}) return ids;
    return api::Error{COLIBRI_FAILED, "the first answer ended with \"" + std::string(event->finish_reason) + "\""};
  }
}

}  // namespace

api::Request Prompt::request(int32_t tokens) const {
  api::Request request;
  request.prompt = ids;
  request.max_tokens = tokens > kAnswerTokens ? -1 : tokens;
  request.temperature = temperature;
  request.seed = seed;
  request.ignore_eos = true;
  return request;
}

api::Outcome<Prompts> answer_prompts(const std::string& model) {
  api::Options options;
  options.settings = {{"context", std::to_string(kContext)}, {"expert_memory", "100%"}};
  auto engine = api::Engine::open(model, options);
  if (!engine) return engine.error();
  Prompts prompts;
  for (const char* text : kTexts) {
    auto ids = engine->text().tokenize(text, COLIBRI_PARSE_SPECIAL);
    if (!ids) return ids.error();
    prompts.all.push_back({*ids, 0, 0, {}});
  }
  std::mt19937_64 random(5);
  const int32_t vocab_size = engine->info().vocab_size;
  for (const size_t n : kLengths) prompts.all.push_back({mixed_tokens(n, vocab_size, random), 0.9, n, {}});
  prompts.first_wide = prompts.all.size();
  for (size_t i = 0; i < kWide; ++i) prompts.all.push_back({mixed_tokens(kWideLength, vocab_size, random), 0, 0, {}});
  for (Prompt& prompt : prompts.all) {
    auto ids = answer(*engine, prompt);
    if (!ids) return ids.error();
    prompt.answer = std::move(*ids);
  }
  return prompts;
}

}  // namespace colibri::soak
