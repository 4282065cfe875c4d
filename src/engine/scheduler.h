// Scheduler: which rows of which sequences the next step computes.
//
// Decode first: every running sequence that is ready gives one row, up to max_batch_size, in turn; then the first
// sequence that still has prompt gives up to prefill_chunk rows. What is together in a batch changes the time, never a
// result. Thread-safety: the engine's thread only. Allocates only when a sequence is added.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "engine/sequence.h"
#include "kv/kv_cache.h"
#include "model/batch.h"

namespace colibri::engine {

struct SchedulerLimits {
  int64_t prefill_chunk = 1;
  int max_batch_size = 1;
  int max_sequences = 1;
};

/// One sequence's part of a step.
struct ScheduledSegment {
  Sequence* sequence = nullptr;
  model::BatchSegment rows;
  bool prefill = false;
  /// After this step nothing of the sequence is left to compute: its next token can be sampled.
  bool complete = false;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerLimits limits);

  void add(std::shared_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }
  /// Gives free slots to waiting sequences, first come first served.
  void admit(kv::KvCache& cache);
  bool has_work() const;
  /// The next step's rows; empty when nobody is ready. Valid until the next call.
  model::Batch next_batch();
  const std::vector<ScheduledSegment>& scheduled() const { return scheduled_; }

  /// Takes out the sequences that have ended and frees their slots.
  void remove_ended(kv::KvCache& cache);
  /// All sequences, running and waiting.
  std::vector<std::shared_ptr<Sequence>> all() const;
  const std::vector<std::shared_ptr<Sequence>>& running() const { return running_; }
  const std::deque<std::shared_ptr<Sequence>>& waiting() const { return waiting_; }

 private:
  void schedule(Sequence& sequence, int64_t n_rows);

  SchedulerLimits limits_;
  std::deque<std::shared_ptr<Sequence>> waiting_;
  std::vector<std::shared_ptr<Sequence>> running_;
  size_t turn_ = 0;  // where the next step's decode rows begin
  std::vector<ScheduledSegment> scheduled_;
  std::vector<model::BatchSegment> segments_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
};

}  // namespace colibri::engine
