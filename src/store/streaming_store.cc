#include "store/streaming_store.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"

namespace colibri::store {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kGlance(10);  // between two looks at the watcher while a step waits
constexpr size_t kHandedTogether = 8;             // experts of an ascending lease that are handed out at once
constexpr int kStealUpTo = 4;                     // experts under way below which an ascending lease robs its own end
constexpr int64_t kAllLikely = 4;   // choices per expert of a layer from which the next layer is read ahead
constexpr int kGuessesAtOnce = 16;  // experts that are being read though nobody asked
constexpr int kWarmingAtOnce = 4;   // of these, after the start

/// Written by one thread, read by any.
class Counter {
 public:
  void add(uint64_t n) { value_.store(get() + n, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct LayerCounters {
  Counter hits, misses;
  std::atomic<int64_t> resident{0};
};

struct Counters {
  Counter demanded, guessed, guesses_used, evictions, overdue, wait_nanoseconds;
  std::atomic<int64_t> slots{0};
};

class StreamingStore final : public ExpertStore {
 public:
  StreamingStore(std::span<const ExpertSource> experts, int n_layers, int n_experts, std::span<std::byte> memory,
                 std::unique_ptr<ExpertReaders> readers, const StreamingOptions& options)
      : ExpertStore(n_layers, n_experts),
        sources_(experts),
        read_timeout_(options.read_timeout),
        least_slots_(options.least_slots),
        probe_bytes_per_second_(options.probe_bytes_per_second),
        policy_(options.policy, options.lfu_threshold, cache_shape(options.slots, n_layers, n_experts)),
        class_of_layer_(options.slots.class_of_layer),
        readers_(std::move(readers)),
        layer_counters_(static_cast<size_t>(n_layers)) {
    cut_slots(options.slots, memory);
    prepare_entries();
    if (!options.heat.empty()) warm(options.heat);
  }
  ~StreamingStore() override { readers_.reset(); }  // before the slots go

  void begin_step(int64_t rows, bool (*stop)(const void*), const void* context) override {
    stop_ = stop;
    stop_context_ = context;
    policy_.begin_step(rows);
  }

  ExpertLeases acquire(int moe_layer, std::span<const int32_t> ids, ArrivalOrder order) override {
    COLIBRI_CHECK(wanted_.empty());
    count(moe_layer, ids);
    layer_ = moe_layer;
    order_ = order;
    const auto choices = static_cast<int64_t>(ids.size());
    sweeping_ = sweeps(choices, n_experts());
    all_likely_ = choices >= kAllLikely * n_experts();
    lease_start_ = Clock::now();
    lease_error_.reset();
    next_issued_ = next_handed_ = 0;
    in_flight_ = 0;
    take_finished({});
    list_wanted(ids);
    for (const int32_t e : wanted_) want(e);
    issue();
    return ExpertLeases(*this);
  }

  void expect(int moe_layer, std::span<const int32_t> ids) override {
    for (const int32_t id : ids) {
      const int candidate = number(moe_layer, id);
      if (entries_[static_cast<size_t>(candidate)].place != Place::kAbsent) continue;
      if (guesses_in_flight_ >= kGuessesAtOnce) return;
      Slot* slot = free_slot(moe_layer);
      if (slot == nullptr) slot = slot_of_colder(candidate, moe_layer);
      if (slot == nullptr) continue;
      load(candidate, *slot, false);
    }
  }

  bool tend() override {
    take_finished({});
    while (next_warm_ < warm_order_.size() && guesses_in_flight_ < kWarmingAtOnce) {
      const int expert = warm_order_[next_warm_++];
      if (entries_[static_cast<size_t>(expert)].place != Place::kAbsent) continue;
      if (Slot* slot = free_slot(expert / n_experts())) load(expert, *slot, false);
    }
    return next_warm_ < warm_order_.size() || guesses_in_flight_ > 0;
  }

  // Free slots first, then those of the coldest experts, class by class.
  int64_t give_back(int64_t bytes) override {
    COLIBRI_CHECK(wanted_.empty());
    take_finished({});
    int64_t given = 0;
    for (size_t c = 0; c < classes_.size(); ++c)
      while (given < bytes && classes_[c].slots > std::min(least_slots_, classes_[c].experts)) {
        Slot* slot = slot_to_give(static_cast<int>(c));
        if (slot == nullptr) break;
        platform::discard(slot->data, classes_[c].slot_bytes);
        --classes_[c].slots;
        counters_.slots.fetch_sub(1, std::memory_order_relaxed);
        given += classes_[c].slot_bytes;
      }
    return given;
  }

  StoreStatistics statistics() const override {
    const ReadTotals reads = readers_->totals();
    StoreStatistics s;
    s.streams = true;
    s.slots = counters_.slots.load(std::memory_order_relaxed);
    s.probe_bytes_per_second = probe_bytes_per_second_;
    for (const LayerCounters& layer : layer_counters_) {
      s.layers.push_back({layer.hits.get(), layer.misses.get(), layer.resident.load(std::memory_order_relaxed)});
      s.hits += s.layers.back().hits, s.misses += s.layers.back().misses, s.resident += s.layers.back().resident;
    }
    s.demanded = counters_.demanded.get(), s.guessed = counters_.guessed.get();
    s.guesses_used = counters_.guesses_used.get(), s.evictions = counters_.evictions.get();
    s.bytes_read = reads.bytes, s.guessed_bytes = reads.speculative_bytes;
    s.reads = reads.reads, s.failed_reads = reads.failed, s.overdue_reads = counters_.overdue.get();
    s.wait_seconds = wait_seconds();
    s.read_seconds = reads.read_seconds, s.pack_seconds = reads.pack_seconds;
    s.slowest_read_seconds = reads.slowest_read_seconds;
    s.reading_seconds = reads.reading_seconds;
    return s;
  }
  uint64_t bytes_read() const override { return readers_->totals().bytes; }
  double wait_seconds() const override { return static_cast<double>(counters_.wait_nanoseconds.get()) * 1e-9; }

  std::vector<float> heat() const override {
    std::vector<float> all;
    all.reserve(entries_.size());
    for (int layer = 0; layer < n_layers(); ++layer)
      for (int e = 0; e < n_experts(); ++e) all.push_back(policy_.heat(layer, e));
    return all;
  }

 private:
  struct Entry {
    Place place = Place::kAbsent;
    bool pinned = false;
    bool guessed = false;  ///< brought in though nobody had asked, and not used since
    int32_t slot = -1;     ///< unless absent
  };
  /// How far a wanted expert is. `given` means handed out and not yet given up.
  enum class Stage : uint8_t { kNone, kWaiting, kLoading, kReady, kGiven, kDone };
  struct Slot {
    std::byte* data = nullptr;
    int expert = -1;     ///< -1: free
    bool guess = false;  ///< it was begun though nobody had asked
    ExpertLoad load;
  };

  static CacheShape cache_shape(const SlotPlan& plan, int n_layers, int n_experts) {
    CacheShape shape{n_layers, n_experts, plan.class_of_layer, {}};
    for (const SlotPlan::Class& c : plan.classes) shape.slots.push_back(c.slots);
    return shape;
  }

  void cut_slots(const SlotPlan& plan, std::span<std::byte> memory) {
    COLIBRI_CHECK(static_cast<int64_t>(memory.size()) >= plan.bytes());
    slots_ = std::vector<Slot>(static_cast<size_t>(plan.slots()));
    free_.resize(plan.classes.size());
    counters_.slots = plan.slots();
    classes_ = plan.classes;
    finished_.resize(slots_.size());
    size_t slot = 0, at = 0;
    for (size_t c = 0; c < plan.classes.size(); ++c) {
      free_[c].reserve(static_cast<size_t>(plan.classes[c].slots));
      for (int64_t i = 0; i < plan.classes[c].slots; ++i, ++slot) {
        slots_[slot].data = memory.data() + at;
        at += static_cast<size_t>(plan.classes[c].slot_bytes);
        free_[c].push_back(&slots_[slot]);
      }
      std::reverse(free_[c].begin(), free_[c].end());  // taken from the back
    }
  }

  void prepare_entries() {
    const auto n = static_cast<size_t>(n_experts());
    entries_.resize(sources_.size());
    weights_.resize(sources_.size());
    for (size_t i = 0; i < sources_.size(); ++i) {
      const auto shape = [](const MatrixSource& s) { return PackedMatrix{s.encoding, s.n, s.k, nullptr}; };
      const ExpertSource& s = sources_[i];
      weights_[i] = {shape(s.gate), shape(s.up), shape(s.down), s.gate_bias, s.up_bias, s.down_bias};
      pointers_.push_back(&weights_[i]);
    }
    rows_of_.resize(n);
    stage_.resize(n);
    wanted_.reserve(n);
    missing_.reserve(n);
    ready_.reserve(n);
  }

  // The hottest first, as many as there are slots.
  void warm(const std::vector<float>& heat) {
    COLIBRI_CHECK(heat.size() == entries_.size());
    for (size_t i = 0; i < heat.size(); ++i) {
      if (!(heat[i] > 0)) continue;
      policy_.warm(static_cast<int>(i) / n_experts(), static_cast<int>(i) % n_experts(), heat[i]);
      warm_order_.push_back(static_cast<int>(i));
    }
    std::stable_sort(warm_order_.begin(), warm_order_.end(),
                     [&heat](int a, int b) { return heat[static_cast<size_t>(a)] > heat[static_cast<size_t>(b)]; });
    if (warm_order_.size() > slots_.size()) warm_order_.resize(slots_.size());
  }

  int number(int layer, int e) const { return layer * n_experts() + e; }
  LayerCounters& counters_of(int layer) { return layer_counters_[static_cast<size_t>(layer)]; }
  Entry& entry_of(int32_t e) { return entries_[static_cast<size_t>(number(layer_, e))]; }
  Stage& stage_of(int32_t e) { return stage_[static_cast<size_t>(e)]; }

  // ---- the lease ---------------------------------------------------------------------------------------------------

  void list_wanted(std::span<const int32_t> ids) {
    missing_.clear();
    for (const int32_t id : ids) ++rows_of_[static_cast<size_t>(id)];
    for (int32_t e = 0; e < n_experts(); ++e) {
      const int32_t rows = std::exchange(rows_of_[static_cast<size_t>(e)], 0);
      if (rows == 0) continue;
      wanted_.push_back(e);
      policy_.use(layer_, e, rows);
    }
  }

  void want(int32_t e) {
    Entry& entry = entry_of(e);
    if (entry.place != Place::kAbsent && entry.guessed) counters_.guesses_used.add(1);
    entry.guessed = false;
    if (entry.place == Place::kResident) {
      pin(number(layer_, e));
      stage_of(e) = Stage::kReady;
      counters_of(layer_).hits.add(1);
      return;
    }
    counters_of(layer_).misses.add(1);
    missing_.push_back(e);
    stage_of(e) = Stage::kWaiting;
    if (entry.place == Place::kAbsent) return;
    readers_->promote(slots_[static_cast<size_t>(entry.slot)].load);
    stage_of(e) = Stage::kLoading;
    ++in_flight_;
  }

  // Begins to read what is wanted, in ascending order, as long as there are slots.
  void issue() {
    for (; next_issued_ < wanted_.size(); ++next_issued_) {
      const int32_t e = wanted_[next_issued_];
      if (stage_of(e) != Stage::kWaiting) continue;
      Slot* slot = slot_for_wanted(e);
      if (slot == nullptr) return;
      load(number(layer_, e), *slot, true);
      stage_of(e) = Stage::kLoading;
      ++in_flight_;
    }
    if (all_likely_) read_ahead();
  }

  Slot* slot_for_wanted(int32_t e) {
    if (Slot* slot = free_slot(layer_)) return slot;
    if (const auto victim = policy_.victim(layer_, {layer_, sweeping_})) return evict(*victim);
    // All slots are pinned or being filled. Where order matters, the last of the lease may hold what the first needs.
    if (order_ == ArrivalOrder::kAscending && in_flight_ < kStealUpTo) return slot_of_last(e);
    return nullptr;
  }

  Slot* slot_of_last(int32_t after) {
    for (size_t i = wanted_.size(); i-- > 0 && wanted_[i] > after;) {
      const int32_t e = wanted_[i];
      if (stage_of(e) != Stage::kReady) continue;
      stage_of(e) = Stage::kWaiting;
      unpin(number(layer_, e));
      return evict(number(layer_, e));
    }
    return nullptr;
  }

  // The next layer will want all of its experts, too: in exact order, into slots of layers that are done with.
  void read_ahead() {
    const int next = layer_ + 1;
    if (next >= n_layers()) return;
    for (int e = 0; e < n_experts() && guesses_in_flight_ < kGuessesAtOnce; ++e) {
      const int candidate = number(next, e);
      if (entries_[static_cast<size_t>(candidate)].place != Place::kAbsent) continue;
      Slot* slot = free_slot(next);
      if (slot == nullptr) {
        const auto victim = policy_.victim(next, {layer_, true});
        if (!victim || *victim / n_experts() > layer_) return;
        slot = evict(*victim);
      }
      load(candidate, *slot, false);
    }
  }

  bool all_there() const override { return missing_.empty(); }
  std::span<const ExpertWeights* const> by_expert() const override {
    return std::span(pointers_).subspan(static_cast<size_t>(number(layer_, 0)), static_cast<size_t>(n_experts()));
  }
  std::span<const int32_t> missing() const override { return missing_; }

  Result<std::span<const int32_t>> next() override {
    give_up_given();
    for (;;) {
      take_finished({});
      if (lease_error_) return *lease_error_;
      issue();
      if (hand_out(); !ready_.empty() || next_handed_ == wanted_.size()) return std::span<const int32_t>(ready_);
      COLIBRI_TRY(wait());
    }
  }

  void give_up_given() {
    if (given_ == 0) return;
    for (const int32_t e : ready_) {
      if (stage_of(e) != Stage::kGiven) continue;
      stage_of(e) = Stage::kDone;
      unpin(number(layer_, e));
    }
    given_ = 0;
  }

  void hand_out() {
    ready_.clear();
    const bool ascending = order_ == ArrivalOrder::kAscending;
    for (size_t i = next_handed_; i < wanted_.size() && (!ascending || ready_.size() < kHandedTogether); ++i) {
      const int32_t e = wanted_[i];
      if (stage_of(e) == Stage::kReady) {
        stage_of(e) = Stage::kGiven;
        ready_.push_back(e);
      } else if (ascending) {
        break;
      }
    }
    given_ = ready_.size();
    while (next_handed_ < wanted_.size() && stage_of(wanted_[next_handed_]) >= Stage::kGiven) ++next_handed_;
  }

  Status wait() {
    if (stop_ != nullptr && stop_(stop_context_)) return Error{ErrorCode::kCancelled, "cancelled"};
    const Clock::time_point start = Clock::now();
    if (start - std::max(lease_start_, readers_->last_progress()) > read_timeout_) return overdue();
    take_finished(kGlance);
    counters_.wait_nanoseconds.add(
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count()));
    return {};
  }

  Error overdue() {
    counters_.overdue.add(1);
    const auto late = std::find_if(wanted_.begin(), wanted_.end(), [this](int32_t e) {
      return stage_of(e) == Stage::kLoading || stage_of(e) == Stage::kWaiting;
    });
    const int32_t e = late == wanted_.end() ? -1 : *late;
    last_failure_ = {layer_, e};
    const ExpertSource& expert = sources_[static_cast<size_t>(number(layer_, std::max(0, e)))];
    const MatrixSource& matrix = expert.gate.n > 0 ? expert.gate : expert.down;
    const Extent extent = extents_of(matrix, 0, matrix.length()).list.front();
    return {ErrorCode::kIo, "expert " + std::to_string(e) + ": " + readers_->path(matrix.tensor->file) + ": tensor " +
                                matrix.tensor->name + ", offset " + std::to_string(extent.offset()) +
                                ": the disk gave nothing for " + std::to_string(read_timeout_.count() / 1000) +
                                " s; check it (dmesg), or raise read_timeout"};
  }

  void end_lease() override {
    for (const int32_t e : wanted_) {
      if (stage_of(e) == Stage::kReady || stage_of(e) == Stage::kGiven) unpin(number(layer_, e));
      stage_of(e) = Stage::kNone;
    }
    wanted_.clear();
    ready_.clear();
    given_ = 0;
  }

  // ---- slots -------------------------------------------------------------------------------------------------------

  Slot* free_slot(int layer) {
    auto& free = free_[static_cast<size_t>(class_of_layer_[static_cast<size_t>(layer)])];
    if (free.empty()) return nullptr;
    Slot* slot = free.back();
    free.pop_back();
    return slot;
  }

  Slot* slot_to_give(int slot_class) {
    const auto layer = std::find(class_of_layer_.begin(), class_of_layer_.end(), slot_class) - class_of_layer_.begin();
    if (Slot* slot = free_slot(static_cast<int>(layer))) return slot;
    const auto victim = policy_.victim(static_cast<int>(layer), {static_cast<int>(layer), false});
    return victim ? evict(*victim) : nullptr;
  }

  Slot* slot_of_colder(int candidate, int layer) {
    const auto victim = policy_.victim(layer, {layer_, false});
    return victim && policy_.worth_more(candidate, *victim) ? evict(*victim) : nullptr;
  }

  Slot* evict(int expert) {
    Entry& entry = entries_[static_cast<size_t>(expert)];
    COLIBRI_CHECK(entry.place == Place::kResident && !entry.pinned);
    policy_.erase(expert / n_experts(), expert % n_experts());
    Slot& slot = slots_[static_cast<size_t>(entry.slot)];
    slot.expert = -1;
    set_data(expert, nullptr);
    entry = {};
    set_place(expert, Place::kAbsent);
    counters_.evictions.add(1);
    counters_of(expert / n_experts()).resident.fetch_sub(1, std::memory_order_relaxed);
    return &slot;
  }

  void load(int expert, Slot& slot, bool demanded) {
    Entry& entry = entries_[static_cast<size_t>(expert)];
    entry = {Place::kLoading, false, !demanded, static_cast<int32_t>(&slot - slots_.data())};
    set_place(expert, Place::kLoading);
    const ExpertSource& source = sources_[static_cast<size_t>(expert)];
    slot.expert = expert;
    slot.load.source = &source;
    slot.load.expert = expert;
    slot.load.gate = slot.data;
    slot.load.up = slot.load.gate + platform::aligned_bytes(source.gate.packed_size());
    slot.load.down = slot.load.up + platform::aligned_bytes(source.up.packed_size());
    (demanded ? counters_.demanded : counters_.guessed).add(1);
    if (!demanded) ++guesses_in_flight_;
    slot.guess = !demanded;
    readers_->begin(slot.load, demanded);
  }

  void take_finished(std::chrono::microseconds timeout) {
    const size_t n = readers_->collect(finished_, timeout);
    for (size_t i = 0; i < n; ++i)
      arrived(slots_[static_cast<size_t>(entries_[static_cast<size_t>(finished_[i]->expert)].slot)]);
  }

  void arrived(Slot& slot) {
    const int expert = slot.expert;
    Entry& entry = entries_[static_cast<size_t>(expert)];
    if (slot.guess) --guesses_in_flight_;
    const bool wanted = expert / n_experts() == layer_ && stage_of(expert % n_experts()) == Stage::kLoading;
    if (wanted) --in_flight_;
    if (slot.load.error) return failed(slot, wanted);
    entry.place = Place::kResident;
    set_place(expert, Place::kResident);
    counters_of(expert / n_experts()).resident.fetch_add(1, std::memory_order_relaxed);
    set_data(expert, &slot);
    policy_.insert(expert / n_experts(), expert % n_experts());
    if (!wanted) return;
    pin(expert);
    stage_of(expert % n_experts()) = Stage::kReady;
  }

  // A guess that cannot be read is nobody's problem until somebody wants it.
  void failed(Slot& slot, bool wanted) {
    const int expert = slot.expert;
    entries_[static_cast<size_t>(expert)] = {};
    set_place(expert, Place::kAbsent);
    slot.expert = -1;
    free_[static_cast<size_t>(class_of_layer_[static_cast<size_t>(expert / n_experts())])].push_back(&slot);
    if (!wanted) return;
    stage_of(expert % n_experts()) = Stage::kWaiting;
    if (lease_error_) return;
    last_failure_ = {layer_, expert % n_experts()};
    lease_error_ = Error{slot.load.error->code,
                         "expert " + std::to_string(expert % n_experts()) + ": " + slot.load.error->message};
  }

  void set_data(int expert, const Slot* slot) {
    ExpertWeights& w = weights_[static_cast<size_t>(expert)];
    w.gate.data = slot != nullptr ? slot->load.gate : nullptr;
    w.up.data = slot != nullptr ? slot->load.up : nullptr;
    w.down.data = slot != nullptr ? slot->load.down : nullptr;
  }

  void pin(int expert) {
    Entry& entry = entries_[static_cast<size_t>(expert)];
    COLIBRI_CHECK(entry.place == Place::kResident && !entry.pinned);
    policy_.erase(expert / n_experts(), expert % n_experts());
    entry.pinned = true;
  }

  void unpin(int expert) {
    Entry& entry = entries_[static_cast<size_t>(expert)];
    COLIBRI_CHECK(entry.place == Place::kResident && entry.pinned);
    policy_.insert(expert / n_experts(), expert % n_experts());
    entry.pinned = false;
  }

  const std::span<const ExpertSource> sources_;  // [n_layers, n_experts], as are entries_, weights_ and pointers_
  const std::chrono::milliseconds read_timeout_;
  const int64_t least_slots_;
  const double probe_bytes_per_second_;
  std::vector<Entry> entries_;
  std::vector<ExpertWeights> weights_;          // data is null unless resident
  std::vector<const ExpertWeights*> pointers_;  // the same, as leases hand them out
  CachePolicy policy_;                          // knows the experts that are resident and not pinned
  std::vector<Slot> slots_;
  std::vector<int> class_of_layer_;
  std::vector<SlotPlan::Class> classes_;  // with the slots that are left
  std::vector<std::vector<Slot*>> free_;  // by class
  std::unique_ptr<ExpertReaders> readers_;
  std::vector<ExpertLoad*> finished_;  // scratch
  int guesses_in_flight_ = 0;
  std::vector<int> warm_order_;  // what to read after the start
  size_t next_warm_ = 0;
  bool (*stop_)(const void*) = nullptr;
  const void* stop_context_ = nullptr;
  Counters counters_;
  std::vector<LayerCounters> layer_counters_;

  // The lease.
  int layer_ = 0;
  ArrivalOrder order_ = ArrivalOrder::kAny;
  bool sweeping_ = false, all_likely_ = false;
  Clock::time_point lease_start_;
  std::vector<int32_t> rows_of_;  // scratch [n_experts]
  std::vector<int32_t> wanted_;   // ascending
  std::vector<int32_t> missing_;
  std::vector<int32_t> ready_;  // handed out by the last next()
  std::vector<Stage> stage_;    // [n_experts]
  size_t next_issued_ = 0;      // in wanted_: all before were begun, or need not be
  size_t next_handed_ = 0;      // in wanted_: all before were handed out
  size_t given_ = 0;            // experts that are handed out
  int in_flight_ = 0;           // wanted experts that are being read
  std::optional<Error> lease_error_;
};

}  // namespace

Result<std::unique_ptr<ExpertStore>> make_streaming_store(std::span<const ExpertSource> experts, int n_layers,
                                                          int n_experts, std::span<std::byte> memory,
                                                          std::unique_ptr<ByteSource> source,
                                                          StreamingOptions options) {
  COLIBRI_ASSIGN(auto readers, ExpertReaders::start(std::move(source), experts, options.readers));
  return std::unique_ptr<ExpertStore>(
      std::make_unique<StreamingStore>(experts, n_layers, n_experts, memory, std::move(readers), options));
}

}  // namespace colibri::store
