#include "store/streaming_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "store/fake_disk.h"
#include "store/matrix_file.h"

namespace colibri::store {
namespace {

using namespace std::chrono_literals;

constexpr int kLayers = 3, kExperts = 10, kWidth = 40, kHidden = 24;
constexpr auto kGood = [](int64_t, int64_t) { return DiskBehaviour{}; };

// A model file of experts, all of them as they must look, and stores over it.
class StreamingStore : public testing::Test {
 protected:
  static std::vector<MatrixShape> shapes() {
    std::vector<MatrixShape> list;
    for (int i = 0; i < kLayers * kExperts; ++i)
      for (const char* part : {"gate", "up", "down"}) {
        const bool down = std::string_view(part) == "down";
        list.push_back({name(i, part), down ? kHidden : kWidth, down ? kWidth : kHidden});
      }
    return list;
  }
  static std::string name(int i, const char* part) { return std::to_string(i) + "." + part; }

  void SetUp() override {
    for (int i = 0; i < kLayers * kExperts; ++i) {
      const auto source = [&](const char* part, int64_t n, int64_t k) {
        return MatrixSource{catalog_.find(name(i, part)), 0, n, k, Encoding::kF32, 0};
      };
      sources_.push_back(
          {source("gate", kWidth, kHidden), source("up", kWidth, kHidden), source("down", kHidden, kWidth)});
    }
    std::vector<LoadJob> jobs;
    arena_ = *platform::Arena::allocate(resident_store_bytes(sources_));
    resident_ = make_resident_store(sources_, kLayers, kExperts, arena_, jobs);
    StagingNeed need;
    for (const LoadJob& job : jobs) need.cover(job.source);
    std::vector<std::byte> staging(static_cast<size_t>(need.bytes()));
    ASSERT_TRUE(load_matrices(catalog_, jobs, 1, staging, {}).ok());
  }

  // A store with room for `slots` experts.
  ExpertStore& open(int64_t slots, FakeDisk::Script script = kGood, PolicyKind policy = PolicyKind::kAuto,
                    int64_t alignment = 1, std::vector<float> heat = {}) {
    store_.reset();
    StreamingOptions options;
    options.policy = policy;
    options.slots = plan_slots(sources_, kLayers, kExperts, slots * slot_bytes(sources_[0]), 1);
    options.readers = {4, 16 * kHidden * 4};
    options.read_timeout = 300ms;
    options.heat = std::move(heat);
    slots_ = *platform::Arena::allocate(options.slots.bytes());
    store_ =
        *make_streaming_store(sources_, kLayers, kExperts, {slots_.data(), static_cast<size_t>(slots_.size_bytes())},
                              std::make_unique<FakeDisk>(catalog_, std::move(script), alignment), options);
    return *store_;
  }

  // What is handed out must be the expert, byte for byte.
  void expect_whole(int layer, int32_t e, const ExpertWeights& got) {
    const auto leases = resident_->acquire(layer, {&e, 1}, ArrivalOrder::kAny);
    const ExpertWeights& expected = *leases.by_expert()[static_cast<size_t>(e)];
    const auto same = [](const PackedMatrix& a, const PackedMatrix& b) {
      return a.data != nullptr &&
             std::memcmp(a.data, b.data, static_cast<size_t>(packed_bytes(a.encoding, a.n, a.k))) == 0;
    };
    EXPECT_TRUE(same(got.gate, expected.gate) && same(got.up, expected.up) && same(got.down, expected.down))
        << "layer " << layer << " expert " << e;
  }

  // Takes all that a lease has to give and checks it; the order in which experts came.
  Result<std::vector<int32_t>> consume(ExpertStore& store, int layer, const std::vector<int32_t>& ids,
                                       ArrivalOrder order) {
    std::vector<int32_t> got;
    ExpertLeases leases = store.acquire(layer, ids, order);
    for (;;) {
      COLIBRI_ASSIGN(const auto ready, leases.next());
      if (ready.empty()) return got;
      for (const int32_t e : ready) {
        expect_whole(layer, e, *leases.by_expert()[static_cast<size_t>(e)]);
        got.push_back(e);
      }
    }
  }

  const MatrixFile file_{shapes()};
  const formats::TensorCatalog catalog_ = file_.open();
  std::vector<ExpertSource> sources_;
  platform::Arena arena_, slots_;
  std::unique_ptr<ExpertStore> resident_, store_;
};

std::vector<int32_t> sorted(std::vector<int32_t> v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
  return v;
}

TEST_F(StreamingStore, EveryWantedExpertComesOnceAndWhole) {
  for (const int64_t slots : {1, 2, 5, 29, 30})
    for (const ArrivalOrder order : {ArrivalOrder::kAny, ArrivalOrder::kAscending}) {
      ExpertStore& store = open(slots);
      for (int layer = 0; layer < kLayers; ++layer) {
        const auto got = consume(store, layer, {7, 1, 7, 4, 0, 9, 2, 1}, order);
        ASSERT_TRUE(got.ok()) << got.error().message;
        if (order == ArrivalOrder::kAscending) {
          EXPECT_EQ(*got, sorted(*got));
        }
        EXPECT_EQ(sorted(*got), (std::vector<int32_t>{0, 1, 2, 4, 7, 9}));
      }
    }
}

TEST_F(StreamingStore, DirectReadsOfWholeBlocksGiveTheSameExperts) {
  ExpertStore& store = open(4, kGood, PolicyKind::kAuto, platform::RawFile::kAlignment);
  EXPECT_TRUE(consume(store, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ArrivalOrder::kAny).ok());
}

TEST_F(StreamingStore, ExpertsInMemoryAreNotReadAgain) {
  ExpertStore& store = open(30);
  ASSERT_TRUE(consume(store, 1, {3, 5}, ArrivalOrder::kAny).ok());
  const std::vector<int32_t> again = {5, 3};
  {
    const ExpertLeases leases = store.acquire(1, again, ArrivalOrder::kAny);
    EXPECT_TRUE(leases.all_there());
    expect_whole(1, 5, *leases.by_expert()[5]);
  }
  const StoreStatistics s = store.statistics();
  EXPECT_EQ(s.hits, 2u);
  EXPECT_EQ(s.misses, 2u);
  EXPECT_EQ(s.demanded, 2u);
  EXPECT_EQ(s.resident, 2);
  EXPECT_EQ(s.layers[1].hits, 2u);
  EXPECT_EQ(s.layers[1].resident, 2);
  EXPECT_EQ(s.layers[0].misses, 0u);
}

TEST_F(StreamingStore, ExpertsInMemoryComeBeforeThoseOnDisk) {
  ExpertStore& store = open(30, [](int64_t n, int64_t) { return DiskBehaviour{n < 8 ? 0us : 20000us}; });
  ASSERT_TRUE(consume(store, 0, {8}, ArrivalOrder::kAny).ok());
  const auto got = consume(store, 0, {2, 8}, ArrivalOrder::kAny);
  EXPECT_EQ(*got, (std::vector<int32_t>{8, 2}));
  EXPECT_GT(store.wait_seconds(), 0);
}

TEST_F(StreamingStore, WhatAStepHoldsIsNeverOverwritten) {
  ExpertStore& store = open(2);
  const std::vector<int32_t> both = {0, 1};
  ASSERT_TRUE(consume(store, 0, both, ArrivalOrder::kAny).ok());
  const ExpertLeases leases = store.acquire(0, both, ArrivalOrder::kAny);
  ASSERT_TRUE(leases.all_there());
  const std::vector<int32_t> other = {5};
  store.expect(1, other);
  std::this_thread::sleep_for(20ms);
  expect_whole(0, 0, *leases.by_expert()[0]);
  expect_whole(0, 1, *leases.by_expert()[1]);
}

TEST_F(StreamingStore, AGuessIsReadOnceAndCountsWhenItComesTrue) {
  ExpertStore& store = open(30, [](int64_t, int64_t) { return DiskBehaviour{500us}; });
  const std::vector<int32_t> guess = {4, 6};
  store.expect(2, guess);
  ASSERT_TRUE(consume(store, 2, {4}, ArrivalOrder::kAny).ok());
  const StoreStatistics s = store.statistics();
  EXPECT_EQ(s.guessed, 2u);
  EXPECT_EQ(s.guesses_used, 1u);
  EXPECT_EQ(s.demanded, 0u);
}

TEST_F(StreamingStore, HeatOfTheLastRunIsReadFirst) {
  std::vector<float> heat(kLayers * kExperts);
  heat[3] = 1, heat[17] = 5, heat[22] = 2;
  ExpertStore& store = open(2, kGood, PolicyKind::kAuto, 1, heat);
  while (store.tend()) std::this_thread::sleep_for(1ms);
  const int32_t seventeen = 7, twenty_two = 2;
  EXPECT_TRUE(store.acquire(1, {&seventeen, 1}, ArrivalOrder::kAny).all_there());
  EXPECT_TRUE(store.acquire(2, {&twenty_two, 1}, ArrivalOrder::kAny).all_there());
  EXPECT_FLOAT_EQ(open(2, kGood, PolicyKind::kAuto, 1, heat).heat()[17], 5);
}

// Found by the soak: reading what was hot took a slot also for an expert that a step had brought in meanwhile.
TEST_F(StreamingStore, HeatThatComesLateLosesNoSlot) {
  std::vector<float> heat(kLayers * kExperts, 1.0f);
  ExpertStore& store = open(20, kGood, PolicyKind::kAuto, 1, heat);
  ASSERT_TRUE(consume(store, 0, {0, 1, 2, 3, 4, 5, 6}, ArrivalOrder::kAny).ok());
  while (store.tend()) std::this_thread::sleep_for(1ms);
  for (int layer = 0; layer < kLayers; ++layer)
    ASSERT_TRUE(consume(store, layer, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ArrivalOrder::kAny).ok());
  EXPECT_EQ(store.statistics().resident, 20);
}

TEST_F(StreamingStore, AReadErrorNamesExpertFileAndOffsetAndPasses) {
  std::atomic<bool> broken{true};
  ExpertStore& store = open(3, [&](int64_t, int64_t) { return DiskBehaviour{0us, broken ? EIO : 0}; });
  const auto got = consume(store, 1, {6}, ArrivalOrder::kAny);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kIo);
  for (const std::string& part :
       {std::string("expert 6"), file_.path(), std::string("tensor 16.gate"), std::string("offset ")})
    EXPECT_NE(got.error().message.find(part), std::string::npos) << got.error().message;
  EXPECT_EQ(store.last_failure(), std::pair(1, 6));
  broken = false;
  EXPECT_TRUE(consume(store, 1, {6}, ArrivalOrder::kAny).ok());
}

TEST_F(StreamingStore, OneFailedReadIsTriedAgain) {
  ExpertStore& store = open(3, [](int64_t n, int64_t) { return DiskBehaviour{0us, n == 0 ? EIO : 0}; });
  EXPECT_TRUE(consume(store, 1, {6}, ArrivalOrder::kAny).ok());
}

TEST_F(StreamingStore, ACutOrChangedFileIsAnErrorNotAWrongExpert) {
  ExpertStore& cut = open(3, [](int64_t n, int64_t) { return DiskBehaviour{0us, 0, n == 2 ? 10 : -1}; });
  const auto first = consume(cut, 0, {1}, ArrivalOrder::kAny);
  ASSERT_FALSE(first.ok());
  EXPECT_NE(first.error().message.find("bytes were there"), std::string::npos) << first.error().message;
  ExpertStore& changed = open(3, [](int64_t n, int64_t) { return DiskBehaviour{0us, 0, -1, n == 1}; });
  const auto second = consume(changed, 0, {1}, ArrivalOrder::kAny);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("was changed"), std::string::npos) << second.error().message;
}

TEST_F(StreamingStore, ADiskThatHangsEndsTheStepAndNotTheProgram) {
  auto hang = std::make_shared<std::atomic<bool>>(true);
  ExpertStore& store = open(3, [hang](int64_t, int64_t) {
    while (*hang) std::this_thread::sleep_for(1ms);
    return DiskBehaviour{};
  });
  const auto got = consume(store, 0, {1}, ArrivalOrder::kAny);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message.find("the disk gave nothing"), std::string::npos) << got.error().message;
  EXPECT_EQ(store.statistics().overdue_reads, 1u);
  store_.reset();  // while its threads hang
  *hang = false;
}

TEST_F(StreamingStore, WaitingEndsWhenTheWatcherSaysSo) {
  ExpertStore& store = open(3, [](int64_t, int64_t) { return DiskBehaviour{50ms}; });
  store.begin_step(
      1, [](const void*) { return true; }, nullptr);
  const auto got = consume(store, 0, {1}, ArrivalOrder::kAny);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kCancelled);
  store.begin_step(1, nullptr, nullptr);
  EXPECT_TRUE(consume(store, 0, {1}, ArrivalOrder::kAny).ok());
}

TEST_F(StreamingStore, ASweepReadsEveryExpertOnce) {
  ExpertStore& store = open(12);
  std::vector<int32_t> all;
  for (int i = 0; i < 10 * kExperts; ++i) all.push_back(i % kExperts);
  store.begin_step(static_cast<int64_t>(all.size()), nullptr, nullptr);
  for (int layer = 0; layer < kLayers; ++layer) ASSERT_TRUE(consume(store, layer, all, ArrivalOrder::kAscending).ok());
  const StoreStatistics s = store.statistics();
  EXPECT_EQ(s.demanded + s.guessed, static_cast<uint64_t>(kLayers * kExperts));
}

TEST_F(StreamingStore, MemoryThatIsGivenBackIsNoLongerUsedAndTheRestWorksOn) {
  ExpertStore& store = open(9);
  ASSERT_TRUE(consume(store, 0, {0, 1, 2, 3, 4, 5, 6}, ArrivalOrder::kAny).ok());
  const int64_t each = slot_bytes(sources_[0]);
  EXPECT_EQ(store.give_back(3 * each), 3 * each);
  EXPECT_EQ(store.statistics().slots, 6);
  for (int layer = 0; layer < kLayers; ++layer)
    EXPECT_TRUE(consume(store, layer, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ArrivalOrder::kAny).ok());
  EXPECT_EQ(store.give_back(100 * each), 5 * each);  // all but the least
  EXPECT_TRUE(consume(store, 1, {0, 1, 2}, ArrivalOrder::kAscending).ok());
}

// Random steps on a slow and sometimes failing disk, abandoned leases, guesses: whatever is handed out is whole, and in
// the end no slot is lost.
TEST_F(StreamingStore, NoHistoryShowsAHalfReadExpertOrLosesASlot) {
  for (const PolicyKind policy : {PolicyKind::kAuto, PolicyKind::kLru, PolicyKind::kLfu}) {
    std::atomic<bool> broken{true};
    ExpertStore& store = open(
        7,
        [&broken](int64_t n, int64_t) {
          return DiskBehaviour{n % 5 == 0 ? 300us : 0us, broken && n % 41 < 2 ? EIO : 0};
        },
        policy);
    std::minstd_rand random(7);
    for (int step = 0; step < 300; ++step) {
      store.begin_step(1, nullptr, nullptr);
      const int layer = step % kLayers;
      std::vector<int32_t> ids(1 + random() % 8);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % kExperts);
      store.expect((layer + 1) % kLayers, ids);
      if (random() % 7 == 0) {
        const ExpertLeases abandoned = store.acquire(layer, ids, ArrivalOrder::kAny);
        continue;
      }
      const auto order = random() % 2 == 0 ? ArrivalOrder::kAny : ArrivalOrder::kAscending;
      const auto got = consume(store, layer, ids, order);
      if (got.ok()) {
        EXPECT_EQ(sorted(*got), sorted(ids));
      }
    }
    broken = false;
    while (store.tend()) std::this_thread::sleep_for(1ms);
    for (int layer = 0; layer < kLayers; ++layer)
      ASSERT_TRUE(consume(store, layer, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, ArrivalOrder::kAny).ok());
    while (store.tend()) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(store.statistics().resident, 7);
  }
}

}  // namespace
}  // namespace colibri::store
