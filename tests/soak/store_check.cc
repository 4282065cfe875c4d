#include "store_check.h"

#include <chrono>
#include <thread>

#include "base/json.h"

namespace colibri::soak {
namespace {

struct StoreNumbers {
  bool streams = false;
  int64_t slots = 0, resident = 0, hits = 0, misses = 0, demanded = 0, guessed = 0, guesses_used = 0, evictions = 0,
          failed_reads = 0, overdue_reads = 0;
  int64_t activations = 0;

  // Experts whose reading was begun, and that were not dropped since: the loading ones and the resident ones.
  int64_t kept() const { return demanded + guessed - evictions; }
};

int64_t number(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value != nullptr && value->is_int() ? value->as_int() : -1;
}

// Every expert's activations, layer by layer.
int64_t sum_of_activations(const Json& engine) {
  int64_t sum = 0;
  for (const Json& layer : engine.find("activations")->as_array())
    for (const Json& expert : layer.as_array()) sum += expert.as_int();
  return sum;
}

Json parsed(const api::Outcome<std::string>& text) { return parse_json(text.value()).value(); }

StoreNumbers numbers_of(const api::Engine& engine) {
  const Json json = parsed(engine.stats_json());
  const Json& store = *json.find("store");
  StoreNumbers n;
  n.streams = store.find("streams")->as_bool();
  n.slots = number(store, "slots"), n.resident = number(store, "resident");
  n.hits = number(store, "hits"), n.misses = number(store, "misses");
  n.demanded = number(store, "demanded"), n.guessed = number(store, "guessed");
  n.guesses_used = number(store, "guesses_used"), n.evictions = number(store, "evictions");
  n.failed_reads = number(store, "failed_reads"), n.overdue_reads = number(store, "overdue_reads");
  n.activations = sum_of_activations(json);
  return n;
}

std::string text_of(const StoreNumbers& n) {
  return std::to_string(n.resident) + " of " + std::to_string(n.slots) + " slots resident, " +
         std::to_string(n.demanded) + " demanded + " + std::to_string(n.guessed) + " guessed - " +
         std::to_string(n.evictions) + " dropped, " + std::to_string(n.hits) + " hits, " + std::to_string(n.misses) +
         " misses";
}

class StoreCheck {
 public:
  StoreCheck(api::Engine& engine, const Prompts& prompts, Findings& findings)
      : engine_(engine), prompts_(prompts), findings_(findings) {}

  void run() {
    ask(prompts_.all[0]);  // when it has ended, what was cancelled before is out of the engine
    StoreNumbers numbers = settled();
    for (size_t i = prompts_.first_wide; i < prompts_.all.size(); ++i) {
      const StoreNumbers before = numbers;
      const Use use = ask(prompts_.all[i]);
      numbers = settled();
      check_account(use, before, numbers, prompts_.all[i]);
    }
    check_slots(numbers);
  }

 private:
  static constexpr int32_t kTokens = 8;
  struct Use {
    int64_t hits = 0, misses = 0;
  };

  // Experts that were wanted by a sequence that is alone in the engine.
  Use ask(const Prompt& prompt) {
    auto sequence = engine_.submit(prompt.request(kTokens));
    if (!sequence) return findings_.add("a last sequence was refused: " + sequence.error().message), Use{};
    api::Event event;
    for (size_t i = 0; event.kind != COLIBRI_EVENT_END;) {
      event = sequence->next().value();
      if (event.kind == COLIBRI_EVENT_TOKEN && event.token != prompt.answer[i++])
        findings_.add("token " + std::to_string(i - 1) + " of a sequence alone in the engine is another");
    }
    if (event.finish_reason != "length") findings_.add("a last sequence failed: " + std::string(event.error));
    const Json stats = parsed(sequence->stats_json());
    const Json& prefill = *stats.find("prefill")->find("experts");
    const Json& decode = *stats.find("decode")->find("experts");
    return {number(prefill, "hits") + number(decode, "hits"), number(prefill, "misses") + number(decode, "misses")};
  }

  // When nothing is being read any more.
  StoreNumbers settled() {
    using namespace std::chrono_literals;
    StoreNumbers numbers = numbers_of(engine_);
    for (int i = 0; numbers.resident != numbers.kept() && i < 1000; ++i) {
      std::this_thread::sleep_for(10ms);
      numbers = numbers_of(engine_);
    }
    if (numbers.streams && numbers.resident != numbers.kept())
      findings_.add("experts stay loading: " + text_of(numbers));
    return numbers;
  }

  void check_account(const Use& use, const StoreNumbers& before, const StoreNumbers& after, const Prompt& prompt) {
    if (after.streams && (after.hits - before.hits != use.hits || after.misses - before.misses != use.misses))
      findings_.add("the store counts other hits or misses than the sequence's " + std::to_string(use.hits) + " + " +
                    std::to_string(use.misses) + "; before: " + text_of(before) + "; after: " + text_of(after));
    const colibri_info info = engine_.info();
    const int64_t rows = static_cast<int64_t>(prompt.ids.size()) + kTokens - 1;
    const int64_t expected = rows * info.top_k * info.n_moe_layers;
    if (after.activations - before.activations != expected)
      findings_.add(std::to_string(after.activations - before.activations) + " activations instead of " +
                    std::to_string(expected));
  }

  void check_slots(const StoreNumbers& n) {
    if (!n.streams) return;
    if (n.failed_reads != 0 || n.overdue_reads != 0) findings_.add("reads failed on a good disk");
    if (n.guesses_used > n.guessed) findings_.add("more guesses were used than made");
    if (n.hits + n.misses > n.activations) findings_.add("more hits and misses than activations");
    if (n.resident > n.slots) findings_.add("more experts than slots: " + text_of(n));
    // An expert is dropped only when no slot is free, and from then on every slot is taken.
    if (n.evictions > 0 && n.resident != n.slots) findings_.add("slots were lost: " + text_of(n));
    if (n.evictions == 0 && n.slots < engine_.info().n_moe_layers * engine_.info().n_experts * 9 / 10)
      findings_.add("the prompts did not fill the slots, so nothing was checked: " + text_of(n));
  }

  api::Engine& engine_;
  const Prompts& prompts_;
  Findings& findings_;
};

}  // namespace

void check_store(api::Engine& engine, const Prompts& prompts, Findings& findings) {
  StoreCheck(engine, prompts, findings).run();
}

bool streams(const api::Engine& engine) { return numbers_of(engine).streams; }

}  // namespace colibri::soak
