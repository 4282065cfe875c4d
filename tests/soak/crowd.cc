#include "crowd.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

#include "process.h"

namespace colibri::soak {
namespace {

using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;
using std::chrono::milliseconds;

constexpr int kGlanceMs = 1;                         // for an event, before the client looks at its next sequence
constexpr std::chrono::microseconds kLongest(4000);  // before something is done to a sequence that has no token yet

int draw(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

milliseconds patience() { return milliseconds(memory_is_a_sanitizers() ? 300'000 : 60'000); }

enum class Fate {
  kFinish,
  kCancel,         ///< by the client that asked
  kCancelByOther,  ///< by whoever comes first
  kLeave,          ///< freed while it runs
  kDeaf,           ///< nobody takes its events for a while, so its queue fills; then as kCancel
};

Fate draw_fate(Random& random) {
  const int percent = draw(random, 0, 99);
  if (percent < 50) return Fate::kFinish;
  if (percent < 70) return Fate::kCancel;
  if (percent < 80) return Fate::kCancelByOther;
  return percent < 99 ? Fate::kLeave : Fate::kDeaf;
}

/// Sequences that anybody may cancel. Their owners take them off before they free them.
class Board {
 public:
  void put(colibri_sequence* sequence) {
    const std::lock_guard lock(mutex_);
    sequences_.push_back(sequence);
  }
  void take_off(const colibri_sequence* sequence) {
    const std::lock_guard lock(mutex_);
    std::erase(sequences_, sequence);
  }
  void cancel_all() {
    const std::lock_guard lock(mutex_);
    for (colibri_sequence* sequence : sequences_) colibri_cancel(sequence);
  }

 private:
  std::mutex mutex_;
  std::vector<colibri_sequence*> sequences_;
};

struct Ask {
  api::Sequence sequence;
  const Prompt* prompt;
  Fate fate;
  int32_t wanted;           // tokens
  size_t fateful_token;     // the fate comes after so many tokens
  Clock::time_point start;  // and not before
  bool struck = false;      // the fate came
  size_t received = 0;
  Clock::time_point heard;  // of it last
};

class Crowd {
 public:
  Crowd(api::Engine& engine, const Prompts& prompts, const CrowdPlan& plan, Findings& findings)
      : engine_(engine), prompts_(prompts), plan_(plan), findings_(findings), left_(plan.asks) {}

  CrowdCount run() {
    std::vector<std::jthread> clients;
    for (int i = 0; i < plan_.clients; ++i)
      clients.emplace_back([this, i] { client(plan_.seed + static_cast<uint64_t>(i)); });
    clients.clear();  // joins
    return {finished_, cancelled_, freed_, tokens_};
  }

 private:
  void client(uint64_t seed) {
    Random random(seed);
    std::vector<Ask> asks;
    for (bool more = true; more || (!asks.empty() && !plan_.leaves);) {
      more = more && fill(asks, random);
      std::erase_if(asks, [&](Ask& ask) { return !attend(ask, random); });
      board_.cancel_all();
    }
    for (Ask& ask : asks) leave(ask);
  }

  // False when there is nothing more to ask.
  bool fill(std::vector<Ask>& asks, Random& random) {
    while (asks.size() < static_cast<size_t>(plan_.asks_at_once)) {
      if (Clock::now() - begin_ > std::chrono::duration<double>(plan_.seconds) || --left_ < 0) return false;
      submit(asks, random);
    }
    return true;
  }

  void submit(std::vector<Ask>& asks, Random& random) {
    const Prompt& prompt =
        prompts_.all[static_cast<size_t>(draw(random, 0, static_cast<int>(prompts_.all.size()) - 1))];
    const Fate fate = draw_fate(random);
    // Mostly short answers; who does not listen asks for more than a queue of events holds.
    const int32_t wanted =
        fate == Fate::kDeaf ? kContext : draw(random, 1, draw(random, 0, 3) == 0 ? kAnswerTokens : kAnswerTokens / 6);
    auto sequence = engine_.submit(prompt.request(wanted));
    if (!sequence) return findings_.add("a sequence was refused: " + sequence.error().message);
    const auto fateful = static_cast<size_t>(draw(random, 0, 1) == 0 ? 0 : draw(random, 0, wanted - 1));
    const auto now = Clock::now();
    const std::chrono::microseconds wait(draw(random, 0, static_cast<int>(kLongest.count())));
    asks.push_back({std::move(*sequence), &prompt, fate, wanted, fateful, now + wait, false, 0, now});
    if (fate == Fate::kDeaf) asks.back().fateful_token = 0, asks.back().start += milliseconds(200);
  }

  // One look at a sequence; false when it is done with.
  bool attend(Ask& ask, Random& random) {
    const bool due = !ask.struck && ask.received >= ask.fateful_token && Clock::now() >= ask.start;
    if (due && !strike(ask)) return false;
    if (ask.fate == Fate::kDeaf && !ask.struck) {
      std::this_thread::sleep_for(milliseconds(kGlanceMs));
      return true;
    }
    const auto event = ask.sequence.next(kGlanceMs);
    if (event) return hear(ask, *event, random);
    findings_.add("no event: " + event.error().message);
    leave(ask);
    return false;
  }

  // False when the sequence is gone.
  bool strike(Ask& ask) {
    ask.struck = true;
    if (ask.fate == Fate::kCancel || ask.fate == Fate::kDeaf) ask.sequence.cancel();
    if (ask.fate == Fate::kCancelByOther) board_.put(ask.sequence.handle());
    if (ask.fate == Fate::kLeave) leave(ask);
    return ask.fate != Fate::kLeave;
  }

  // The destructor of the sequence, which follows, frees it.
  void leave(Ask& ask) {
    board_.take_off(ask.sequence.handle());
    ++freed_;
  }

  bool hear(Ask& ask, const api::Event& event, Random& random) {
    if (event.kind == COLIBRI_EVENT_NONE) return wait_on(ask);
    ask.heard = Clock::now();
    if (event.kind == COLIBRI_EVENT_TOKEN) hear_token(ask, event.token);
    if (event.kind != COLIBRI_EVENT_END) return true;
    hear_end(ask, event);
    board_.take_off(ask.sequence.handle());
    if (draw(random, 0, 7) == 0) ask_for_statistics(ask);
    return false;
  }

  bool wait_on(Ask& ask) {
    if (Clock::now() - ask.heard < patience()) return true;
    findings_.add("a sequence hangs after " + std::to_string(ask.received) + " tokens");
    leave(ask);
    return false;
  }

  void hear_token(Ask& ask, int32_t token) {
    const api::TokenIds& answer = ask.prompt->answer;
    if (ask.received < answer.size() && token != answer[ask.received])
      findings_.add("token " + std::to_string(ask.received) + " after a prompt of " +
                    std::to_string(ask.prompt->ids.size()) + " is " + std::to_string(token) + ", not " +
                    std::to_string(answer[ask.received]));
    ++ask.received;
    ++tokens_;
  }

  void hear_end(const Ask& ask, const api::Event& event) {
    const bool may_be_cancelled = ask.struck && ask.fate != Fate::kFinish;
    const bool whole = ask.received == static_cast<size_t>(ask.wanted) || ask.fate == Fate::kDeaf;
    if (event.finish_reason == "length" && whole) {
      ++finished_;
    } else if (event.finish_reason == "cancelled" && may_be_cancelled && event.status == COLIBRI_CANCELLED) {
      ++cancelled_;
    } else {
      findings_.add("a sequence ended with \"" + std::string(event.finish_reason) + "\" after " +
                    std::to_string(ask.received) + " of " + std::to_string(ask.wanted) +
                    " tokens: " + std::string(event.error));
    }
  }

  // Others compute meanwhile.
  void ask_for_statistics(const Ask& ask) {
    if (const auto json = ask.sequence.stats_json(); !json) findings_.add("no statistics: " + json.error().message);
    if (const auto json = engine_.stats_json(); !json) findings_.add("no statistics: " + json.error().message);
  }

  api::Engine& engine_;
  const Prompts& prompts_;
  const CrowdPlan& plan_;
  Findings& findings_;
  Board board_;
  const Clock::time_point begin_ = Clock::now();
  std::atomic<int> left_;
  std::atomic<int64_t> finished_{0}, cancelled_{0}, freed_{0}, tokens_{0};
};

}  // namespace

CrowdCount run_crowd(api::Engine& engine, const Prompts& prompts, const CrowdPlan& plan, Findings& findings) {
  return Crowd(engine, prompts, plan, findings).run();
}

}  // namespace colibri::soak
