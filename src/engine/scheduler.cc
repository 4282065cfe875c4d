#include "engine/scheduler.h"

#include <algorithm>

namespace colibri::engine {
namespace {

// A prompt is due after so many times what it takes by itself.
constexpr double kPatience = 4;

bool ready(const Sequence& sequence) {
  const int64_t echoes = sequence.request.echo ? sequence.n_prompt() - sequence.n_echoed : 0;
  return !sequence.ended && (sequence.sink != nullptr || sequence.stream.has_room(static_cast<size_t>(echoes)));
}

bool due_before(const Sequence& a, const Sequence& b) { return a.due_seconds < b.due_seconds; }

}  // namespace

PassPlan::PassPlan(size_t max_segments, size_t max_rows) {
  segments_.reserve(max_segments);
  rows_.reserve(max_segments);
  tokens_.reserve(max_rows);
  positions_.reserve(max_rows);
}

void PassPlan::clear() {
  segments_.clear();
  rows_.clear();
  tokens_.clear();
  positions_.clear();
}

void PassPlan::add(Sequence& sequence, int64_t n_rows) {
  const bool prefill = sequence.prefilling();
  const int64_t first = sequence.n_computed;
  rows_.push_back({sequence.slot, static_cast<int64_t>(tokens_.size()), n_rows, first, sequence.long_prompt});
  segments_.push_back({&sequence, rows_.back(), prefill, first + n_rows == sequence.n_tokens()});
  for (int64_t i = first; i < first + n_rows; ++i) {
    tokens_.push_back(sequence.tokens[static_cast<size_t>(i)]);
    positions_.push_back(static_cast<int32_t>(i));
  }
}

bool PassPlan::contains(const Sequence& sequence) const {
  return std::any_of(segments_.begin(), segments_.end(), [&](const auto& s) { return s.sequence == &sequence; });
}

Scheduler::Scheduler(SchedulerLimits limits)
    : limits_(limits),
      decode_(static_cast<size_t>(limits.max_sequences), static_cast<size_t>(limits.max_sequences)),
      prefill_(static_cast<size_t>(limits.max_sequences), static_cast<size_t>(limits.prefill_chunk)) {
  running_.reserve(static_cast<size_t>(limits.max_sequences));
  prompts_.reserve(static_cast<size_t>(limits.max_sequences));
}

void Scheduler::add(std::shared_ptr<Sequence> sequence, double seconds_per_row) {
  const double submitted = std::chrono::duration<double>(sequence->stats.submitted.time_since_epoch()).count();
  const auto own = static_cast<double>(sequence->n_prompt());
  sequence->due_seconds = submitted + seconds_per_row * (kPatience * own + backlog_rows(sequence->request.client));
  const auto place = std::upper_bound(waiting_.begin(), waiting_.end(), sequence,
                                      [](const auto& a, const auto& b) { return due_before(*a, *b); });
  waiting_.insert(place, std::move(sequence));
}

// Prompt rows of this client that are still to be computed.
double Scheduler::backlog_rows(const std::string& client) const {
  if (client.empty()) return 0;
  int64_t rows = 0;
  const auto count = [&](const std::shared_ptr<Sequence>& s) {
    if (s->request.client == client) rows += std::max<int64_t>(0, s->n_prompt() - s->n_computed);
  };
  std::for_each(waiting_.begin(), waiting_.end(), count);
  std::for_each(running_.begin(), running_.end(), count);
  return static_cast<double>(rows);
}

void Scheduler::admit(kv::KvCache& cache, const std::function<size_t(const Waiting&)>& pick,
                      const std::function<void(Sequence&)>& started) {
  while (!waiting_.empty() && cache.has_free_slot()) {
    const size_t chosen = pick ? pick(waiting_) : 0;
    if (chosen == kNobody) return;
    const auto it = waiting_.begin() + static_cast<ptrdiff_t>(chosen);
    running_.push_back(std::move(*it));
    waiting_.erase(it);
    running_.back()->slot = cache.take_slot();
    if (started) started(*running_.back());
  }
}

bool Scheduler::has_work() const {
  if (!prefill_.empty()) return true;
  return std::any_of(running_.begin(), running_.end(), [](const auto& s) { return s->wants_stop() || ready(*s); }) ||
         std::any_of(waiting_.begin(), waiting_.end(), [](const auto& s) { return s->wants_stop(); });
}

SlotUse Scheduler::slot_use() const {
  SlotUse use;
  for (const auto& sequence : running_)
    if (ready(*sequence)) ++(sequence->prefilling() ? use.prefilling : use.decoding);
  return use;
}

const PassPlan& Scheduler::plan_decode() {
  decode_.clear();
  const size_t n = running_.size(), limit = static_cast<size_t>(limits_.max_batch_size);
  for (size_t i = 0; i < n && decode_.segments().size() < limit; ++i) {
    Sequence& sequence = *running_[(turn_ + i) % n];
    if (!sequence.prefilling() && ready(sequence)) decode_.add(sequence, 1);
  }
  turn_ = n == 0 ? 0 : (turn_ + decode_.segments().size()) % n;
  return decode_;
}

const PassPlan& Scheduler::plan_prefill(int64_t max_rows) {
  prompts_.clear();
  for (const auto& sequence : running_)
    if (sequence->prefilling() && ready(*sequence)) prompts_.push_back(sequence.get());
  std::sort(prompts_.begin(), prompts_.end(), [](const Sequence* a, const Sequence* b) { return due_before(*a, *b); });
  int64_t left = std::min(max_rows, limits_.prefill_chunk);
  for (Sequence* sequence : prompts_) {
    const int64_t end = sequence->next_cut > sequence->n_computed ? sequence->next_cut : sequence->n_prompt();
    const int64_t rows = std::min(left, end - sequence->n_computed);
    if (rows > 0) prefill_.add(*sequence, rows);
    left -= rows;
  }
  return prefill_;
}

size_t Scheduler::remove_ended(kv::KvCache& cache) {
  const auto gone = [&](const std::shared_ptr<Sequence>& sequence) {
    if (!sequence->ended || prefill_.contains(*sequence)) return false;
    if (sequence->slot >= 0) cache.release_slot(sequence->slot);
    sequence->slot = -1;
    return true;
  };
  return std::erase_if(running_, gone) + std::erase_if(waiting_, gone);
}

std::vector<std::shared_ptr<Sequence>> Scheduler::all() const {
  std::vector<std::shared_ptr<Sequence>> result(running_.begin(), running_.end());
  result.insert(result.end(), waiting_.begin(), waiting_.end());
  return result;
}

}  // namespace colibri::engine
