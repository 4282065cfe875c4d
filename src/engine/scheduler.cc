#include "engine/scheduler.h"

#include <algorithm>

namespace colibri::engine {
namespace {

bool ready(const Sequence& sequence) { return sequence.sink != nullptr || sequence.stream.has_room(); }

}  // namespace

Scheduler::Scheduler(SchedulerLimits limits) : limits_(limits) {
  const auto n = static_cast<size_t>(limits.max_sequences);
  const size_t rows = static_cast<size_t>(limits.prefill_chunk) + n;
  running_.reserve(n);
  scheduled_.reserve(n);
  segments_.reserve(n);
  tokens_.reserve(rows);
  positions_.reserve(rows);
}

void Scheduler::admit(kv::KvCache& cache) {
  while (!waiting_.empty()) {
    const int slot = cache.take_slot();
    if (slot < 0) return;
    waiting_.front()->slot = slot;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

bool Scheduler::has_work() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& s) { return s->wants_stop() || ready(*s); }) ||
         std::any_of(waiting_.begin(), waiting_.end(), [](const auto& s) { return s->wants_stop(); });
}

model::Batch Scheduler::next_batch() {
  scheduled_.clear();
  segments_.clear();
  tokens_.clear();
  positions_.clear();
  const size_t n = running_.size();
  for (size_t i = 0; i < n && scheduled_.size() < static_cast<size_t>(limits_.max_batch_size); ++i) {
    Sequence& sequence = *running_[(turn_ + i) % n];
    if (!sequence.prefilling() && ready(sequence)) schedule(sequence, 1);
  }
  turn_ = n == 0 ? 0 : (turn_ + scheduled_.size()) % n;
  for (const auto& sequence : running_) {
    if (!sequence->prefilling() || !ready(*sequence)) continue;
    schedule(*sequence, std::min(limits_.prefill_chunk, sequence->n_prompt() - sequence->n_computed));
    break;
  }
  return {tokens_, positions_, segments_};
}

void Scheduler::schedule(Sequence& sequence, int64_t n_rows) {
  const bool prefill = sequence.prefilling();
  const int64_t first = sequence.n_computed;
  const model::BatchSegment rows{sequence.slot, static_cast<int64_t>(tokens_.size()), n_rows, first,
                                 sequence.long_prompt};
  segments_.push_back(rows);
  scheduled_.push_back({&sequence, rows, prefill, first + n_rows == sequence.n_tokens()});
  for (int64_t i = first; i < first + n_rows; ++i) {
    tokens_.push_back(sequence.tokens[static_cast<size_t>(i)]);
    positions_.push_back(static_cast<int32_t>(i));
  }
}

void Scheduler::remove_ended(kv::KvCache& cache) {
  const auto ended = [&cache](const std::shared_ptr<Sequence>& sequence) {
    if (!sequence->ended) return false;
    if (sequence->slot >= 0) cache.release_slot(sequence->slot);
    sequence->slot = -1;
    return true;
  };
  std::erase_if(running_, ended);
  std::erase_if(waiting_, ended);
  scheduled_.clear();
}

std::vector<std::shared_ptr<Sequence>> Scheduler::all() const {
  std::vector<std::shared_ptr<Sequence>> result(running_.begin(), running_.end());
  result.insert(result.end(), waiting_.begin(), waiting_.end());
  return result;
}

}  // namespace colibri::engine
