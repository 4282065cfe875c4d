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

std::shared_ptr<Sequence> sequence_at(int n_prompt, double submitted, const std::string& client = "") {
  Request request;
  request.prompt.assign(static_cast<size_t>(n_prompt), 1);
  request.client = client;
  auto sequence = std::make_shared<Sequence>(std::move(request));
  sequence->stats.submitted =
      Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(submitted)));
  return sequence;
}

std::vector<const Sequence*> order_of(const Scheduler& scheduler) {
  std::vector<const Sequence*> order;
  for (const auto& s : scheduler.waiting()) order.push_back(s.get());
  return order;
}

TEST(Scheduler, WhoDecodesAndWhoStillHasPromptAreInDifferentPasses) {
  kv::KvCache cache = cache_with(4);
  Scheduler scheduler({8, 16, 4});
  const auto decoding = sequence_of(5);
  scheduler.add(decoding, 0);
  scheduler.add(sequence_of(3), 0);
  scheduler.add(sequence_of(20), 0);
  scheduler.admit(cache);
  decoding->n_computed = 5;
  decoding->tokens.push_back(99);
  const model::Batch decode = scheduler.plan_decode().batch();
  ASSERT_EQ(decode.segments.size(), 1u);
  EXPECT_EQ(decode.segments[0].first_position, 5);
  EXPECT_EQ(decode.tokens[0], 99);
  EXPECT_TRUE(scheduler.decode().segments()[0].complete);
  const model::Batch prefill = scheduler.plan_prefill(8).batch();
  ASSERT_EQ(prefill.segments.size(), 2u);
  EXPECT_EQ(prefill.segments[0].n_rows, 3);
  EXPECT_EQ(prefill.segments[1].n_rows, 5);
  EXPECT_TRUE(scheduler.prefill().segments()[0].complete);
  EXPECT_FALSE(scheduler.prefill().segments()[1].complete);
}

TEST(Scheduler, AShortPromptPassesALongOneButNotForEver) {
  Scheduler scheduler({8, 16, 4});
  const auto document = sequence_at(1000, 0.0), soon = sequence_at(10, 1.0), late = sequence_at(10, 60.0);
  for (const auto& s : {document, soon, late}) scheduler.add(s, 0.01);  // the document takes 10 s, it is due after 40
  EXPECT_EQ(order_of(scheduler), (std::vector<const Sequence*>{soon.get(), document.get(), late.get()}));
}

TEST(Scheduler, ManyRequestsOfOneClientDoNotHoldUpAnother) {
  Scheduler scheduler({8, 16, 4});
  std::vector<std::shared_ptr<Sequence>> many;
  for (int i = 0; i < 20; ++i) scheduler.add(many.emplace_back(sequence_at(100, 0.001 * i, "many")), 0.01);
  const auto one = sequence_at(100, 0.5, "one");
  scheduler.add(one, 0.01);
  const auto order = order_of(scheduler);
  EXPECT_LE(std::find(order.begin(), order.end(), one.get()) - order.begin(), 1);
  for (size_t i = 1; i < many.size(); ++i) EXPECT_LT(many[i - 1]->due_seconds, many[i]->due_seconds);
}

TEST(Scheduler, ASequenceThatAPassComputesKeepsItsSlotUntilThePassIsOver) {
  kv::KvCache cache = cache_with(1);
  Scheduler scheduler({8, 4, 1});
  const auto first = sequence_of(4), second = sequence_of(4);
  scheduler.add(first, 0);
  scheduler.add(second, 0);
  scheduler.admit(cache);
  scheduler.plan_prefill(8);
  first->ended = true;
  scheduler.remove_ended(cache);
  scheduler.admit(cache);
  EXPECT_EQ(second->slot, -1);
  scheduler.end_prefill();
  scheduler.remove_ended(cache);
  scheduler.admit(cache);
  EXPECT_GE(second->slot, 0);
}

TEST(Scheduler, EverySequenceGetsItsTurnWhenTheBatchIsSmall) {
  kv::KvCache cache = cache_with(5);
  Scheduler scheduler({8, 2, 5});
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (int i = 0; i < 5; ++i) {
    sequences.push_back(sequence_of(2));
    scheduler.add(sequences.back(), 0);
  }
  scheduler.admit(cache);
  for (const auto& s : sequences) {
    s->n_computed = 2;
    s->tokens.push_back(7);
  }
  std::vector<int> turns(5);
  for (int step = 0; step < 5; ++step) {
    ASSERT_EQ(scheduler.plan_decode().segments().size(), 2u);
    for (const ScheduledSegment& segment : scheduler.decode().segments())
      for (size_t i = 0; i < 5; ++i) turns[i] += segment.sequence == sequences[i].get() ? 1 : 0;
  }
  EXPECT_EQ(turns, std::vector<int>(5, 2));
}

TEST(Scheduler, SequencesWithoutASlotWaitInOrderAndTakeFreedSlots) {
  kv::KvCache cache = cache_with(1);
  Scheduler scheduler({8, 4, 1});
  const auto first = sequence_of(2), second = sequence_of(2), third = sequence_of(2);
  for (const auto& s : {first, second, third}) scheduler.add(s, 0);
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
  scheduler.add(slow, 0);
  scheduler.add(other, 0);
  scheduler.admit(cache);
  while (slow->stream.has_room()) slow->stream.push({});
  ASSERT_EQ(scheduler.plan_prefill(8).segments().size(), 1u);
  EXPECT_EQ(scheduler.prefill().segments()[0].sequence, other.get());
}

}  // namespace
}  // namespace colibri::engine
