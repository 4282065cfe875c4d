#include "engine/scheduler.h"

#include <gtest/gtest.h>

namespace colibri::engine {
namespace {

kv::KvCache cache_with(int slots) { return *kv::KvCache::create({{{1, 16, 16}}, 64, 1, slots}); }

std::shared_ptr<Sequence> sequence_of(int n_prompt, int n_done = 0) {
  Request request;
  for (int i = 0; i < n_prompt; ++i) request.prompt.push_back(i);
  auto sequence = std::make_shared<Sequence>(std::move(request));
  sequence->n_computed = n_done;
  return sequence;
}

TEST(Scheduler, DecodeRowsComeFirstThenOneSliceOfTheFirstPrompt) {
  kv::KvCache cache = cache_with(4);
  Scheduler scheduler({8, 16, 4});
  const auto decoding = sequence_of(5);
  scheduler.add(decoding);
  scheduler.add(sequence_of(20));
  scheduler.add(sequence_of(3));
  scheduler.admit(cache);
  decoding->n_computed = 5;
  decoding->tokens.push_back(99);
  const model::Batch batch = scheduler.next_batch();
  ASSERT_EQ(batch.segments.size(), 2u);
  EXPECT_EQ(batch.segments[0].n_rows, 1);
  EXPECT_EQ(batch.segments[0].first_position, 5);
  EXPECT_EQ(batch.tokens[0], 99);
  EXPECT_EQ(batch.segments[1].n_rows, 8);
  EXPECT_TRUE(scheduler.scheduled()[0].complete);
  EXPECT_FALSE(scheduler.scheduled()[1].complete);
  EXPECT_EQ(batch.rows(), 9);
}

TEST(Scheduler, EverySequenceGetsItsTurnWhenTheBatchIsSmall) {
  kv::KvCache cache = cache_with(5);
  Scheduler scheduler({8, 2, 5});
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (int i = 0; i < 5; ++i) {
    sequences.push_back(sequence_of(2));
    scheduler.add(sequences.back());
  }
  scheduler.admit(cache);
  for (const auto& s : sequences) {
    s->n_computed = 2;
    s->tokens.push_back(7);
  }
  std::vector<int> turns(5);
  for (int step = 0; step < 5; ++step) {
    scheduler.next_batch();
    ASSERT_EQ(scheduler.scheduled().size(), 2u);
    for (const ScheduledSegment& segment : scheduler.scheduled())
      for (size_t i = 0; i < 5; ++i) turns[i] += segment.sequence == sequences[i].get() ? 1 : 0;
  }
  EXPECT_EQ(turns, std::vector<int>(5, 2));
}

TEST(Scheduler, SequencesWithoutASlotWaitInOrderAndTakeFreedSlots) {
  kv::KvCache cache = cache_with(1);
  Scheduler scheduler({8, 4, 1});
  const auto first = sequence_of(2), second = sequence_of(2), third = sequence_of(2);
  for (const auto& s : {first, second, third}) scheduler.add(s);
  scheduler.admit(cache);
  EXPECT_EQ(scheduler.running().size(), 1u);
  first->ended = true;
  scheduler.remove_ended(cache);
  scheduler.admit(cache);
  ASSERT_EQ(scheduler.running().size(), 1u);
  EXPECT_EQ(scheduler.running()[0], second);
  EXPECT_EQ(scheduler.waiting().size(), 1u);
}

TEST(Scheduler, ASequenceWhoseReaderIsSlowSitsOut) {
  kv::KvCache cache = cache_with(2);
  Scheduler scheduler({8, 4, 2});
  const auto slow = sequence_of(2), other = sequence_of(2);
  scheduler.add(slow);
  scheduler.add(other);
  scheduler.admit(cache);
  while (slow->stream.has_room()) slow->stream.push({});
  scheduler.next_batch();
  ASSERT_EQ(scheduler.scheduled().size(), 1u);
  EXPECT_EQ(scheduler.scheduled()[0].sequence, other.get());
}

}  // namespace
}  // namespace colibri::engine
