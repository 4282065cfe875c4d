#include "replay/replay.h"

#include <limits>
#include <set>
#include <utility>

namespace colibri::replay {
namespace {

/// Which experts are resident, and how many hits that gave. Choice: begin_step(step), use(id, rows), insert(id),
/// erase(id), and victim(layer, step), an id or -1.
template <typename Choice>
class Cache {
 public:
  Cache(const Trace& trace, int64_t slots, Choice& choice)
      : n_experts_(trace.n_experts),
        free_(slots),
        choice_(choice),
        resident_(static_cast<size_t>(trace.all_experts())) {}

  Score run(const Trace& trace) {
    Score score;
    int since_prompt = kAfterPrompt;
    for (const Step& step : trace.steps) {
      const Hits hits = run(step);
      add(score.all, hits);
      if (step.tokens > 1) {
        since_prompt = 0;
        continue;
      }
      add(score.decode, hits);
      if (since_prompt++ < kAfterPrompt) add(score.after_prompt, hits);
    }
    return score;
  }

 private:
  static void add(Hits& sum, const Hits& more) {
    sum.hits += more.hits;
    sum.wanted += more.wanted;
  }

  Hits run(const Step& step) {
    Hits hits;
    choice_.begin_step(step);
    for (size_t layer = 0; layer < step.layers.size(); ++layer) {
      hits.wanted += static_cast<int64_t>(step.layers[layer].size());
      hits.hits += run(step, static_cast<int>(layer));
    }
    return hits;
  }

  int64_t run(const Step& step, int layer) {
    int64_t hits = 0;
    missing_.clear();
    for (const Want& want : step.layers[static_cast<size_t>(layer)]) {
      const int id = layer * n_experts_ + want.expert;
      choice_.use(id, want.rows);
      if (!resident_[static_cast<size_t>(id)]) {
        missing_.push_back(id);
        continue;
      }
      choice_.erase(id);
      held_.push_back(id);
      ++hits;
    }
    for (const int id : missing_) read(id, layer, step);
    release();
    return hits;
  }

  void read(int id, int layer, const Step& step) {
    if (free_ == 0) make_room(layer, step);
    --free_;
    resident_[static_cast<size_t>(id)] = true;
    held_.push_back(id);
  }

  void make_room(int layer, const Step& step) {
    int gone = choice_.victim(layer, step);
    if (gone < 0) {  // the step holds everything: the wave is computed and let go
      release();
      gone = choice_.victim(layer, step);
    }
    choice_.erase(gone);
    resident_[static_cast<size_t>(gone)] = false;
    ++free_;
  }

  void release() {
    for (const int id : held_) choice_.insert(id);
    held_.clear();
  }

  int n_experts_;
  int64_t free_;
  Choice& choice_;
  std::vector<bool> resident_;
  std::vector<int> held_, missing_;
};

class ByPolicy {
 public:
  ByPolicy(const Trace& trace, int64_t slots, store::PolicyKind kind)
      : trace_(trace),
        policy_(kind, 0,
                {trace.n_layers, trace.n_experts, std::vector<int>(static_cast<size_t>(trace.n_layers), 0), {slots}}) {}

  void begin_step(const Step& step) { policy_.begin_step(step.tokens); }
  void use(int id, int64_t rows) { policy_.use(id / trace_.n_experts, id % trace_.n_experts, rows); }
  void insert(int id) { policy_.insert(id / trace_.n_experts, id % trace_.n_experts); }
  void erase(int id) { policy_.erase(id / trace_.n_experts, id % trace_.n_experts); }
  int victim(int layer, const Step& step) {
    const bool sweeping = store::sweeps(step.tokens * trace_.top_k, trace_.n_experts);
    return policy_.victim(layer, {layer, sweeping}).value_or(-1);
  }

 private:
  const Trace& trace_;
  store::CachePolicy policy_;
};

class ByFuture {
 public:
  explicit ByFuture(const Trace& trace) : n_experts_(trace.n_experts), next_(static_cast<size_t>(trace.all_experts())) {
    std::vector<int64_t> later(next_.size(), kNever);
    int64_t now = count_uses(trace);
    next_use_.resize(static_cast<size_t>(now));
    for (auto step = trace.steps.rbegin(); step != trace.steps.rend(); ++step)
      for (int layer = trace.n_layers - 1; layer >= 0; --layer) {
        const std::vector<Want>& wants = step->layers[static_cast<size_t>(layer)];
        for (auto want = wants.rbegin(); want != wants.rend(); ++want) {
          auto& after = later[static_cast<size_t>(layer * n_experts_ + want->expert)];
          next_use_[static_cast<size_t>(--now)] = std::exchange(after, now);
        }
      }
  }

  void begin_step(const Step&) {}
  void use(int id, int64_t) {
    const int64_t before = std::exchange(next_[static_cast<size_t>(id)], next_use_[static_cast<size_t>(now_++)]);
    if (evictable_.erase({before, id}) != 0) evictable_.insert({next_[static_cast<size_t>(id)], id});
  }
  void insert(int id) { evictable_.insert({next_[static_cast<size_t>(id)], id}); }
  void erase(int id) { evictable_.erase({next_[static_cast<size_t>(id)], id}); }
  int victim(int, const Step&) const { return evictable_.empty() ? -1 : evictable_.rbegin()->second; }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  static int64_t count_uses(const Trace& trace) {
    int64_t n = 0;
    for (const Step& step : trace.steps)
      for (const auto& wants : step.layers) n += static_cast<int64_t>(wants.size());
    return n;
  }

  int n_experts_;
  std::vector<int64_t> next_;      // [experts], when it is used after now
  std::vector<int64_t> next_use_;  // [uses], when the same expert is used again
  int64_t now_ = 0;                // uses so far
  std::set<std::pair<int64_t, int>> evictable_;
};

}  // namespace

Score replay(const Trace& trace, int64_t slots, store::PolicyKind kind) {
  ByPolicy choice(trace, slots, kind);
  return Cache(trace, slots, choice).run(trace);
}

Score replay_optimum(const Trace& trace, int64_t slots) {
  ByFuture choice(trace);
  return Cache(trace, slots, choice).run(trace);
}

}  // namespace colibri::replay
