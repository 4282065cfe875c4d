// Who gets a free slot, and how much of the prompt is there already.
//
// In the order of due times, unless experts stream and `batching` is routing: then whoever's experts are in memory, or
// wanted by those who run, goes first, within a bound. A request that stood at place p when it came starts with the
// (kBound * p + slots)-th admission after that at the latest; in the order of due times it would be the p-th.
#include <algorithm>

#include "engine/engine.h"
#include "store/weights_identity.h"

namespace colibri::engine {
namespace {

constexpr int64_t kBound = 2;
constexpr size_t kLookAhead = 64;  // of those who wait, that are compared

// Whole blocks that two prompts have in common.
int64_t common_positions(std::span<const TokenId> a, std::span<const TokenId> b, int64_t block) {
  const auto n = std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return (n.first - a.begin()) / block * block;
}

kv::PrefixScope scope_of(const Sequence& sequence) { return {sequence.request.prefix_key, sequence.long_prompt}; }

}  // namespace

void Engine::admit() {
  tend_prefixes();
  scheduler_->admit(
      *cache_, [this](const auto& waiting) { return pick(waiting); }, [this](Sequence& sequence) { start(sequence); });
  int64_t positions = 0, to_compute = 0;
  const auto add = [&](const std::shared_ptr<Sequence>& sequence) {
    positions += sequence->n_computed;
    to_compute += std::max<int64_t>(0, sequence->n_prompt() - sequence->n_computed);
  };
  std::for_each(scheduler_->running().begin(), scheduler_->running().end(), add);
  std::for_each(scheduler_->waiting().begin(), scheduler_->waiting().end(), add);
  pacing_->waiting(to_compute, scheduler_->slot_use());
  metrics_.running.set(static_cast<int64_t>(scheduler_->running().size()));
  metrics_.waiting.set(static_cast<int64_t>(scheduler_->waiting().size()));
  metrics_.positions.set(positions);
}

size_t Engine::pick(const Scheduler::Waiting& waiting) {
  if (too_many_misses()) return Scheduler::kNobody;
  const auto slots = static_cast<int64_t>(plan_.kv.n_slots);
  size_t best = Scheduler::kNobody;
  float best_score = -1;
  if (affinity_)
    affinity_->look([this](size_t e) { return in_memory(static_cast<int>(e)); },
                    [this](const auto& visit) {
                      for (const auto& sequence : scheduler_->running()) visit(sequence->profile);
                    });
  for (size_t i = 0; i < waiting.size(); ++i) {
    Sequence& sequence = *waiting[i];
    if (affinity_ && sequence.start_by < 0) {
      sequence.start_by = n_admissions_ + kBound * static_cast<int64_t>(i) + slots;
      sequence.profile = affinity_->profile(sequence.request.prompt);
    }
    if (!may_start(sequence)) continue;
    if (!affinity_ || sequence.start_by <= n_admissions_ + 1) return i;
    if (i >= kLookAhead) continue;
    const float score = affinity_->score(sequence.profile);
    if (score > best_score) best = i, best_score = score;
  }
  return best;
}

// `expert`: in all layers together, those without weights counted.
bool Engine::in_memory(int expert) const {
  const int layer = expert / facts_.n_experts, e = expert % facts_.n_experts;
  return e < experts_->n_experts() && experts_->place(layer, e) != store::ExpertStore::Place::kAbsent;
}

// Another row would wait for its experts, too. Somebody always runs.
bool Engine::too_many_misses() const {
  const auto rows = static_cast<double>(scheduler_->running().size());
  return rows > 0 && wait_per_row_ * (rows + 1) > step_miss_seconds_;
}

// Not while its prefix comes from the disk, or is being computed for somebody else.
bool Engine::may_start(const Sequence& sequence) {
  if (!shares_prefixes(sequence)) return true;
  if (prefixes_->prefetch(scope_of(sequence), sequence.request.prompt)) return false;
  return !will_be_computed(sequence);
}

bool Engine::shares_prefixes(const Sequence& sequence) const {
  const Request& r = sequence.request;
  return prefixes_ && sequence.sink == nullptr && !r.routing && !r.echo;
}

bool Engine::will_be_computed(const Sequence& sequence) const {
  const TokenIds& prompt = sequence.request.prompt;
  const int64_t known = prefixes_->find(scope_of(sequence), prompt).known;
  return std::any_of(scheduler_->running().begin(), scheduler_->running().end(), [&](const auto& other) {
    if (!other->prefilling() || !shares_prefixes(*other) || other->long_prompt != sequence.long_prompt ||
        other->request.prefix_key != sequence.request.prefix_key)
      return false;
    return common_positions(prompt, other->request.prompt, prefixes_->block_positions()) > known;
  });
}

void Engine::start(Sequence& sequence) {
  ++n_admissions_;
  sequence.started = true;
  metrics_.queue.observe(sequence.stats.elapsed());
  if (shares_prefixes(sequence)) restore_prefix(sequence);
  if (sequence.sink != nullptr) return;
  TokenEvent& event = new_event(EventKind::kProgress, sequence);
  event.prompt_done = sequence.n_computed;
  sequence.stream.push(event);
}

// Where state cannot be cut back, passes end where later prompts may begin: where prompts have parted, and at the last
// border before the end.
void Engine::restore_prefix(Sequence& sequence) {
  const TokenIds& prompt = sequence.request.prompt;
  const int64_t known = prefixes_->find(scope_of(sequence), prompt).known;
  sequence.n_computed = sequence.n_cached =
      prefixes_->restore(scope_of(sequence), prompt, sequence.slot, *cache_, *states_);
  if (sequence.n_cached > 0 && spec().recurrent()) states_->checkpoint(sequence.slot, sequence.n_cached);
  metrics_.cached_tokens.add(static_cast<uint64_t>(sequence.n_cached));
  if (!prefixes_->recurrent()) return;
  const int64_t block = prefixes_->block_positions();
  sequence.last_cut = (sequence.n_prompt() - 1) / block * block;
  sequence.next_cut = known > sequence.n_computed ? known : sequence.last_cut;
}

// After a pass that completed a block, before the next one overwrites rings.
void Engine::keep_prefix(const ScheduledSegment& segment) {
  Sequence& sequence = *segment.sequence;
  if (!shares_prefixes(sequence) || sequence.ended) return;
  const int64_t block = prefixes_->block_positions(), now = sequence.n_computed;
  if (now / block == (now - segment.rows.n_rows) / block) return;
  const std::span<const TokenId> tokens(sequence.tokens.data(), static_cast<size_t>(now));
  prefixes_->insert(scope_of(sequence), tokens, sequence.slot, *cache_);
  if (now != sequence.next_cut) return;
  prefixes_->snapshot(scope_of(sequence), tokens, sequence.slot, *states_);
  sequence.next_cut = sequence.last_cut;
}

// ---- prefixes ------------------------------------------------------------------------------------------------------

Status Engine::open_prefixes(const OpenOptions& options) {
  const Settings& settings = options.settings;
  if (plan_.prefixes.n_blocks == 0) {
    if (settings.prefix_folder != "off" && log_)
      log_(1, "prefix_folder has no effect: no memory is given to prefix_cache");
    return {};
  }
  COLIBRI_ASSIGN(const uint64_t identity, store::weights_identity(model_->catalog));
  COLIBRI_ASSIGN(prefixes_,
                 kv::PrefixCache::create(plan_.prefixes, identity + (plan_.backend.float_activations ? 1 : 0)));
  if (settings.prefix_folder == "off") return {};
  kv::PrefixDiskOptions disk;
  disk.folder = settings.prefix_folder;
  disk.max_bytes = settings.prefix_disk_bytes;
  disk.log = [log = log_](int level, const std::string& line) {
    if (log) log(level, line);
  };
  disk.wake = [this] { wake(); };
  return prefixes_->open_folder(std::move(disk));
}

// What the disk has finished. True while somebody waits for it to write.
bool Engine::tend_prefixes() {
  if (!prefixes_) return false;
  prefixes_->tend();
  publish_prefixes();
  std::unique_lock lock(mutex_);
  if (saves_ended_ == saves_wanted_) return false;
  if (const int64_t wanted = saves_wanted_; saves_begun_ != wanted) {
    prefixes_->save();
    saves_begun_ = wanted;
  }
  if (prefixes_->unsaved() > 0) return true;
  saves_ended_ = saves_begun_;
  saved_.notify_all();
  return saves_ended_ != saves_wanted_;
}

void Engine::publish_prefixes() {
  constexpr std::chrono::milliseconds kEvery(200);
  const Clock::time_point now = Clock::now();
  // Always before the engine falls asleep, or what was found last would not be told until somebody asks again.
  if (now - prefixes_published_ < kEvery && !scheduler_->running().empty()) return;
  prefixes_published_ = now;
  const kv::PrefixStatistics s = prefixes_->statistics();
  PrefixNumbers& n = metrics_.prefixes;
  n.blocks.set(s.blocks), n.blocks_used.set(s.blocks_used), n.lookups.set(s.lookups), n.hits.set(s.hits);
  n.evicted.set(s.evicted), n.disk_bytes.set(s.disk.bytes), n.disk_reads.set(s.disk.read);
  n.disk_writes.set(s.disk.written), n.disk_errors.set(s.disk.errors + s.disk.skipped);
}

Status Engine::save_prefixes() {
  if (!prefixes_) return {};
  std::unique_lock lock(mutex_);
  const int64_t mine = ++saves_wanted_;
  poked_ = true;
  wake_.notify_one();
  saved_.wait(lock, [&] { return saves_ended_ >= mine || stop_; });
  return saves_ended_ < mine ? Status(Error{ErrorCode::kCancelled, "the engine closes"}) : Status();
}

}  // namespace colibri::engine
