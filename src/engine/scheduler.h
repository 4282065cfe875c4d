// Scheduler: which rows of which sequences are computed next.
//
// Two passes go on side by side. The decode pass of a step has one row of each sequence that is ready for its next
// token, in turn where max_batch_size is less. The prefill pass has rows of prompts and stays under way over several
// steps, some pieces of layers in each (engine/pacing.h). Prompts, and sequences that wait for a slot, go in the order
// of their due times: the submission, plus a few times what the prompt will take, plus what the same client already has
// in the queue. So a short prompt passes a long one, nobody's many requests hold up another client, and since a due
// time never changes, everybody's turn comes. What is together in a batch changes the time, never a result.
// Thread-safety: the engine's thread only. Allocates only when a sequence is added.
#pragma once

#include <deque>
#include <functional>
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

/// What those who have a slot are at; those who wait for their reader are not counted.
struct SlotUse {
  int64_t prefilling = 0, decoding = 0;
};

/// One sequence's part of a pass.
struct ScheduledSegment {
  Sequence* sequence = nullptr;
  model::BatchSegment rows;
  bool prefill = false;
  /// After this pass nothing of the sequence is left to compute: its next token can be sampled.
  bool complete = false;
};

/// What one pass computes. Memory for `max_segments` and `max_rows` is there from the start.
class PassPlan {
 public:
  PassPlan(size_t max_segments, size_t max_rows);
  void clear();
  /// The next `n_rows` tokens of the sequence.
  void add(Sequence& sequence, int64_t n_rows);
  bool empty() const { return segments_.empty(); }
  bool contains(const Sequence& sequence) const;
  /// Valid until the plan changes.
  model::Batch batch() const { return {tokens_, positions_, rows_}; }
  const std::vector<ScheduledSegment>& segments() const { return segments_; }

 private:
  std::vector<ScheduledSegment> segments_;
  std::vector<model::BatchSegment> rows_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> positions_;
};

class Scheduler {
 public:
  explicit Scheduler(SchedulerLimits limits);

  /// `seconds_per_row`: what a row of a prompt takes at present.
  void add(std::shared_ptr<Sequence> sequence, double seconds_per_row);
  static constexpr size_t kNobody = static_cast<size_t>(-1);
  using Waiting = std::deque<std::shared_ptr<Sequence>>;
  /// Gives free slots to waiting sequences, as long as there are any. `pick` chooses among those that wait, which are
  /// in the order of their due times; kNobody: nobody may start now. `started` is called with who got a slot.
  void admit(kv::KvCache& cache, const std::function<size_t(const Waiting&)>& pick = {},
             const std::function<void(Sequence&)>& started = {});
  bool has_work() const;

  /// One row of each sequence that is ready for a token; empty when none is. Valid until the next call.
  const PassPlan& plan_decode();
  /// Begins a prefill pass of up to `max_rows` rows; empty when there is no prompt. REQUIRES: none is under way.
  const PassPlan& plan_prefill(int64_t max_rows);
  const PassPlan& decode() const { return decode_; }
  /// The pass that is under way; empty when none is.
  const PassPlan& prefill() const { return prefill_; }
  void end_prefill() { prefill_.clear(); }
  SlotUse slot_use() const;
  bool anyone_decodes() const { return slot_use().decoding > 0; }

  /// Takes out the sequences that have ended and frees their slots. One that the prefill pass computes keeps its slot
  /// until that is over.
  /// How many that were.
  size_t remove_ended(kv::KvCache& cache);
  /// All sequences, running and waiting.
  std::vector<std::shared_ptr<Sequence>> all() const;
  const std::vector<std::shared_ptr<Sequence>>& running() const { return running_; }
  const Waiting& waiting() const { return waiting_; }

 private:
  double backlog_rows(const std::string& client) const;

  SchedulerLimits limits_;
  Waiting waiting_;  // by due time
  std::vector<std::shared_ptr<Sequence>> running_;
  std::vector<Sequence*> prompts_;  // scratch
  size_t turn_ = 0;                 // where the next step's decode rows begin
  PassPlan decode_, prefill_;
};

}  // namespace colibri::engine
