#include "engine/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/statistics.h"
#include "platform/cpu.h"
#include "platform/memory.h"
#include "sampling/sampler.h"

namespace colibri::engine {
namespace {

constexpr int64_t kGrowthBytes = int64_t{3} << 20;     // code that has not run yet, stacks, small things on the heap
constexpr int64_t kStreamBytes = int64_t{128} << 10;   // of one sequence: its event queue and small things
constexpr int64_t kExpertBytes = 512;                  // of one expert: its entry in the store, its jobs while loading
constexpr int kMaxLoadingThreads = 16;                 // more add staging memory but no speed
constexpr int64_t kReserveBytes = int64_t{256} << 20;  // left to the rest of the machine when the budget is "auto"
// Rows of a prefill pass when the setting is "auto". An expert's weights are read and unpacked once per pass, so more
// is faster, up to here; but other sequences wait for a pass. Halved, down to the least, while it takes more than a
// sixteenth of the budget or does not fit.
constexpr int64_t kPrefillChunk = 2048;
constexpr int64_t kSharedPrefillChunk = 512;  // when there may be other sequences
constexpr int64_t kLeastPrefillChunk = 64;
// While experts stream, every pass may read them all, so passes are as long as an eighth of the budget allows.
constexpr int64_t kStreamedPrefillChunk = 4096, kSharedStreamedPrefillChunk = 2048;
constexpr int64_t kPrefixPart = 16;  // of the budget, for computed prefixes that nobody gave a size
constexpr int64_t kMaxBlocks = int64_t{1} << 20;
constexpr int64_t kApartRows = 32;          // rows that meet their experts in the order in which those arrive
constexpr int64_t kTokenTextBytes = 80;     // of a token, for answers of a given form; servers are asked for those
constexpr int64_t kThreadBytes = 64 << 10;  // stack of a thread that reads
constexpr int64_t kLeastContext = 256;      // of those that we choose
constexpr int64_t kLogitRows = 32;          // rows whose logits are computed at once when every position is asked for

std::string mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  return text;
}

// What is free counts even when a larger budget was asked for: a promise that the machine cannot keep is none.
void choose_budget(const Settings& settings, MemoryPlan& plan) {
  const int64_t free = platform::available_memory_bytes(), resident = platform::rss_bytes();
  plan.budget_bytes = resident + std::max<int64_t>(0, free - std::min(kReserveBytes, free / 10));
  if (settings.memory_bytes <= 0) return;
  plan.budget_bytes = std::min(settings.memory_bytes, resident + free);
  if (plan.budget_bytes < settings.memory_bytes)
    plan.note = "memory is " + mebibytes(settings.memory_bytes) + ", but the machine or its cgroup leaves only " +
                mebibytes(plan.budget_bytes) + "; planning with that";
}

// What is resident now, and what is known to be added on the heap.
int64_t process_bytes(const model::ModelSpec& spec, const MemoryPlan& plan) {
  const int64_t n_experts = int64_t{spec.n_moe_layers()} * spec.moe.n_stored();
  const int64_t per_position = sizeof(TokenId) + sizeof(float) + sizeof(ExpertUse);  // a sequence's tokens and steps
  const int64_t per_sequence =
      kStreamBytes + plan.kv.capacity * per_position + n_experts * static_cast<int64_t>(sizeof(uint32_t));
  return platform::rss_bytes() + kGrowthBytes + n_experts * kExpertBytes + plan.kv.n_slots * per_sequence +
         sampling::SamplerScratch::bytes(spec.vocab_size) + plan.readers.threads * kThreadBytes +
         (plan.kv.n_slots > 1 ? spec.vocab_size * kTokenTextBytes : 0);
}

// What this version cannot do is refused, not ignored.
Status check_settings(const Settings& settings) {
  if (settings.io == "mapped")
    return Error{ErrorCode::kUsage,
                 "io mapped: no file type that this version reads holds weights as the kernels want them, so they "
                 "cannot be used where they lie; leave io out"};
  return {};
}

// A plan starts from what the process holds, which differs by some pages from one start to the next. So what is called
// the minimum has some room to spare, and is a whole number of megabytes, which can be typed.
int64_t with_room_to_spare(int64_t least) {
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  return (least + 2 * kMegabyte + kMegabyte - 1) / kMegabyte * kMegabyte;
}

// What `expert_memory` allows for experts; the total when it says nothing.
int64_t allowed_expert_bytes(const Settings& settings, int64_t total) {
  if (settings.expert_memory_bytes >= 0) return std::min(total, settings.expert_memory_bytes);
  if (settings.expert_memory_percent >= 0)
    return static_cast<int64_t>(settings.expert_memory_percent / 100.0 * static_cast<double>(total));
  return total;
}

// Which forms of hidden rows the experts of this model need.
void limit_to_encodings(const model::WeightPlan& weights, compute::BackendOptions& backend) {
  backend.limits.quantised_experts = backend.limits.float_experts = false;
  for (const store::ExpertSource& expert : weights.experts()) {
    const bool strips = has_codes(expert.down.encoding) && !backend.float_activations;
    (strips ? backend.limits.quantised_experts : backend.limits.float_experts) = true;
  }
}

kv::KvGeometry geometry(const model::ModelSpec& spec, const Settings& settings, int64_t context) {
  kv::KvGeometry geometry;
  geometry.layers = model::kv_layers(spec);
  geometry.capacity = context;
  geometry.n_slots = settings.parallel;
  geometry.type = kv_type_named(settings.kv_type).value_or(KvType::kF32);
  return geometry;
}

// One checkpoint for each sequence: where its prompt ends.
kv::StateGeometry state_geometry(const model::ModelSpec& spec, const Settings& settings) {
  return {model::state_floats(spec), settings.parallel, spec.recurrent() ? settings.parallel : 0};
}

Result<int64_t> choose_context(const model::ModelSpec& spec, const Settings& settings, int64_t wanted,
                               int64_t budget_bytes) {
  if (settings.context > spec.context)
    return Error{ErrorCode::kUsage, "context " + std::to_string(settings.context) + " exceeds the " +
                                        std::to_string(spec.context) + " positions that the model was trained for"};
  if (settings.context > 0) return settings.context;
  if (wanted > 0) return std::min(wanted, spec.context);
  // Bytes grow with the context from where all windows are full.
  const auto bytes = [&](int64_t positions) { return kv::KvCache::bytes(geometry(spec, settings, positions)); };
  const int64_t all = bytes(spec.context), half = bytes(spec.context / 2 + 1);
  const int64_t per_position = std::max<int64_t>(1, (all - half) / std::max<int64_t>(1, spec.context / 2));
  const int64_t too_much = std::max<int64_t>(0, all - budget_bytes / 4);
  return std::min(spec.context, std::max<int64_t>(16, spec.context - too_much / per_position));
}

Error does_not_fit(const MemoryPlan& plan) {
  return {ErrorCode::kDoesNotFit,
          "the model needs at least " + mebibytes(plan.minimum_bytes) + " (weights besides experts " +
              mebibytes(plan.dense_bytes) + ", experts of one layer " + mebibytes(plan.expert_bytes) + " of " +
              mebibytes(plan.expert_bytes_total) + ", keys and values " + mebibytes(plan.kv_bytes) + " for " +
              std::to_string(plan.kv.capacity) + " positions x " + std::to_string(plan.kv.n_slots) + ", workspace " +
              mebibytes(plan.workspace_bytes + plan.scratch_bytes) + ", program and loading " +
              mebibytes(plan.rest_bytes()) + "), the budget is " + mebibytes(plan.budget_bytes) +
              "; raise --memory, or lower --context, --parallel or --prefill-chunk"};
}

// Makes a plan, one decision after the other; what is decided is in `plan`.
class Planner {
 public:
  Planner(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings)
      : spec_(spec), weights_(weights), settings_(settings) {}

  Result<MemoryPlan> run(int64_t wanted_context) {
    COLIBRI_TRY(check_settings(settings_));
    choose_budget(settings_, plan_);
    budget_note_ = plan_.note;
    COLIBRI_ASSIGN(int64_t context, choose_context(spec_, settings_, wanted_context, plan_.budget_bytes));
    // A context that nobody asked for shrinks before anything is refused.
    const bool ours = settings_.context == 0 && wanted_context == 0;
    const int64_t least_context = ours ? std::min(context, kLeastContext) : context;
    plan_fixed(least_context);
    plan_.minimum_bytes = least_bytes();
    while (!plan_with(context)) {
      if (context <= least_context) return does_not_fit(plan_);
      context = std::max(least_context, context / 2);
    }
    return std::move(plan_);
  }

 private:
  bool plan_with(int64_t context) {
    plan_fixed(context);
    plan_.note = budget_note_;
    plan_.streams = false;
    plan_.decoder_limits.max_apart_rows = plan_.decoder_limits.guesses_per_row = 0;
    plan_.reader_bytes = 0;
    allowed_ = allowed_expert_bytes(settings_, plan_.expert_bytes_total);
    if (allowed_ == plan_.expert_bytes_total && fits_resident()) return true;
    if (weights_.experts().empty()) return false;
    plan_streaming();
    return plan_.planned_bytes() <= plan_.budget_bytes;
  }

  // What does not depend on where experts are.
  void plan_fixed(int64_t context) {
    plan_.dense_bytes = weights_.dense_bytes();
    plan_.expert_bytes_total = weights_.expert_bytes();
    plan_.decoder_limits.max_segments = settings_.parallel;
    plan_.decoder_limits.context = context;
    plan_.kv = geometry(spec_, settings_, context);
    plan_.states = state_geometry(spec_, settings_);
    plan_cache_for(1);
    plan_.backend.isa = settings_.isa;
    plan_.backend.threads = settings_.threads > 0 ? settings_.threads : platform::usable_cores();
    plan_.backend.router_threads = settings_.router_threads;
    plan_.backend.float_activations = settings_.activations == "float";
    plan_.loading_threads = std::min(plan_.backend.threads, kMaxLoadingThreads);
    plan_.staging_bytes = plan_.loading_threads * weights_.staging().bytes();
    plan_.peak_so_far = platform::peak_rss_bytes();
  }

  void hold_all_experts() {
    plan_.readers.threads = 0;
    plan_.process_bytes = process_bytes(spec_, plan_);
    plan_.expert_bytes = plan_.expert_bytes_total;
    set_prefixes(settings_.prefix_cache_bytes > 0 ? settings_.prefix_cache_bytes : 0);
    plan_.slots = slots_of(plan_.expert_bytes_total);
  }

  bool fits_resident() {
    hold_all_experts();
    choose_prefill_chunk(settings_.parallel > 1 ? kSharedPrefillChunk : kPrefillChunk, 16);
    if (weights_.experts().empty()) plan_.minimum_bytes = with_room_to_spare(plan_.planned_bytes());
    if (plan_.planned_bytes() > plan_.budget_bytes) return false;
    if (settings_.prefix_cache_bytes < 0)
      set_prefixes(std::min(plan_.budget_bytes / kPrefixPart, plan_.budget_bytes - plan_.planned_bytes()));
    return true;
  }

  // Whole blocks, and where a model has recurrent state, as many bytes for snapshots of it.
  void set_prefixes(int64_t bytes) {
    plan_.prefixes = {};
    plan_.prefix_bytes = 0;
    const auto block = kv::PrefixCache::block_bytes(plan_.kv);
    if (bytes <= 0 || !block.ok()) return;
    kv::PrefixGeometry g{plan_.kv, plan_.states, 0, 0, settings_.prefix_folder != "off"};
    const int64_t per_snapshot = spec_.recurrent() ? kv::PrefixCache::snapshot_bytes(plan_.states) : 0;
    g.n_snapshots = per_snapshot > 0 ? static_cast<int>(bytes / 2 / per_snapshot) : 0;
    g.n_blocks = static_cast<int>(std::min<int64_t>((bytes - g.n_snapshots * per_snapshot) / *block, kMaxBlocks));
    const auto all = kv::PrefixCache::bytes(g);
    if (g.n_blocks == 0 || (spec_.recurrent() && g.n_snapshots == 0) || !all.ok()) return;
    plan_.prefixes = std::move(g);
    plan_.prefix_bytes = *all;
  }

  void begin_streaming() {
    plan_.streams = true;
    plan_.readers = {};
    plan_.decoder_limits.max_apart_rows = std::max<int64_t>(kApartRows, settings_.parallel);
    plan_.decoder_limits.guesses_per_row = static_cast<int>(
        std::ceil(std::max(0.0, settings_.prefetch_weight) * static_cast<double>(spec_.moe.router.top_k)));
    plan_.reader_bytes = store::ExpertReaders::staging_bytes(weights_.experts(), plan_.readers);
    plan_.process_bytes = process_bytes(spec_, plan_);
    set_prefixes(settings_.prefix_cache_bytes > 0 ? settings_.prefix_cache_bytes : 0);
    set_slots(0);
    plan_passes(chunk_of(kLeastPrefillChunk));
  }

  // What the least of everything takes: a small model may need less with all experts there than with readers for them.
  int64_t least_bytes() {
    if (weights_.experts().empty()) return 0;
    const MemoryPlan before = plan_;
    begin_streaming();
    int64_t least = plan_.planned_bytes();
    plan_ = before;
    if (allowed_expert_bytes(settings_, plan_.expert_bytes_total) == plan_.expert_bytes_total) {
      hold_all_experts();
      plan_passes(chunk_of(kLeastPrefillChunk));
      least = std::min(least, plan_.planned_bytes());
    }
    plan_ = before;
    return with_room_to_spare(least);
  }

  // The least of everything first; then passes as long as can be, and slots of the rest.
  void plan_streaming() {
    begin_streaming();
    choose_prefill_chunk(settings_.parallel > 1 ? kSharedStreamedPrefillChunk : kStreamedPrefillChunk, 8);
    if (settings_.prefix_cache_bytes < 0)
      set_prefixes(std::min(plan_.budget_bytes / kPrefixPart, (plan_.budget_bytes - plan_.planned_bytes()) / 2));
    set_slots(std::min(allowed_, plan_.budget_bytes - (plan_.planned_bytes() - plan_.expert_bytes)));
    if (plan_.expert_bytes > allowed_)
      plan_.note += (plan_.note.empty() ? "" : "; ") + std::string("expert_memory allows ") + mebibytes(allowed_) +
                    ", but the experts that one token wants of a layer take " + mebibytes(plan_.expert_bytes) +
                    "; planning with that";
  }

  store::SlotPlan slots_of(int64_t bytes) const {
    return store::plan_slots(weights_.experts(), spec_.n_moe_layers(), spec_.moe.n_stored(),
                             std::max<int64_t>(0, bytes), std::min(spec_.moe.router.top_k, spec_.moe.n_stored()));
  }
  void set_slots(int64_t bytes) {
    plan_.slots = slots_of(bytes);
    plan_.expert_bytes = plan_.slots.bytes();
  }

  int64_t chunk_of(int64_t rows) const {
    return std::min(settings_.prefill_chunk > 0 ? settings_.prefill_chunk : rows, plan_.decoder_limits.context);
  }

  // Layers with a window keep what a pass of so many rows looks back at.
  void plan_cache_for(int64_t pass_rows) {
    // A block of a prefix is kept after the pass that completed it.
    const auto block = settings_.prefix_cache_bytes != 0 ? kv::PrefixCache::block_positions(plan_.kv) : int64_t{1};
    plan_.kv.pass_rows = pass_rows + (block.ok() ? *block - 1 : 0);
    plan_.kv_bytes = kv::KvCache::bytes(plan_.kv) + kv::StateCache::bytes(plan_.states);
  }

  // Everything that follows from the rows of a prefill pass.
  void plan_passes(int64_t chunk) {
    plan_cache_for(chunk);
    model::DecoderLimits& limits = plan_.decoder_limits;
    plan_.prefill_chunk = chunk;
    limits.max_decode_rows = settings_.parallel;
    limits.max_rows = std::max(chunk, limits.max_decode_rows);
    limits.max_apart_rows = std::min(limits.max_apart_rows, limits.max_rows);
    limits.max_logit_rows = std::max<int64_t>(settings_.parallel, std::min(kLogitRows, chunk));
    plan_.backend.limits = model::backend_limits(spec_, limits);
    limit_to_encodings(weights_, plan_.backend);
    plan_.workspace_bytes = model::workspace_bytes(spec_, limits);
    plan_.scratch_bytes = compute::cpu_backend_scratch_bytes(plan_.backend);
  }

  // The longest pass, from `rows` down by halves, that fits and takes at most a `part` of the budget.
  void choose_prefill_chunk(int64_t rows, int64_t part) {
    for (int64_t chunk = chunk_of(rows);; chunk /= 2) {
      plan_passes(chunk);
      const bool fits = plan_.planned_bytes() <= plan_.budget_bytes &&
                        plan_.workspace_bytes + plan_.scratch_bytes <= plan_.budget_bytes / part;
      if (fits || settings_.prefill_chunk > 0 || chunk / 2 < kLeastPrefillChunk) return;
    }
  }

  const model::ModelSpec& spec_;
  const model::WeightPlan& weights_;
  const Settings& settings_;
  int64_t allowed_ = 0;
  std::string budget_note_;
  MemoryPlan plan_;
};

}  // namespace

Result<MemoryPlan> make_plan(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings,
                             int64_t wanted_context) {
  return Planner(spec, weights, settings).run(wanted_context);
}

}  // namespace colibri::engine
