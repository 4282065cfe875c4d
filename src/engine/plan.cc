#include "engine/plan.h"

#include <algorithm>
#include <cstdio>

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
constexpr int64_t kLogitRows = 32;  // rows whose logits are computed at once when every position is asked for

std::string mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  return text;
}

int64_t budget(const Settings& settings) {
  if (settings.memory_bytes > 0) return settings.memory_bytes;
  const int64_t free = platform::available_memory_bytes();
  return platform::rss_bytes() + std::max<int64_t>(0, free - std::min(kReserveBytes, free / 10));
}

// What is resident now, and what is known to be added on the heap.
int64_t process_bytes(const model::ModelSpec& spec, const MemoryPlan& plan) {
  const int64_t n_experts = int64_t{spec.n_moe_layers()} * spec.moe.router.n_experts;
  const int64_t per_position = sizeof(TokenId) + sizeof(float);  // a sequence's tokens and their times
  const int64_t per_sequence =
      kStreamBytes + plan.kv.capacity * per_position + n_experts * static_cast<int64_t>(sizeof(uint32_t));
  return platform::rss_bytes() + kGrowthBytes + n_experts * kExpertBytes + plan.kv.n_slots * per_sequence +
         sampling::SamplerScratch::bytes(spec.vocab_size);
}

Error unsupported(const std::string& setting, const std::string& why) {
  return {ErrorCode::kUnsupported, setting + ": " + why};
}

// What this version cannot do is refused, not ignored.
Status check_settings(const Settings& settings, int64_t expert_bytes) {
  if (settings.io != "auto" && settings.io != "buffered")
    return unsupported("io " + settings.io, "this version reads buffered only");
  int64_t allowed = expert_bytes;
  if (settings.expert_memory_bytes >= 0) allowed = settings.expert_memory_bytes;
  if (settings.expert_memory_percent >= 0)
    allowed = static_cast<int64_t>(settings.expert_memory_percent / 100.0 * static_cast<double>(expert_bytes));
  if (allowed < expert_bytes)
    return Error{ErrorCode::kDoesNotFit, "expert_memory allows " + mebibytes(allowed) + ", the experts take " +
                                             mebibytes(expert_bytes) +
                                             "; this version keeps all experts in memory, so raise it or leave it out"};
  return {};
}

// Which forms of hidden rows the experts of this model need.
void limit_to_encodings(const model::WeightPlan& weights, compute::BackendOptions& backend) {
  backend.limits.quantised_experts = backend.limits.float_experts = false;
  for (const store::ExpertSource& expert : weights.experts()) {
    const bool strips = is_quantised(expert.down.encoding) && !backend.float_activations;
    (strips ? backend.limits.quantised_experts : backend.limits.float_experts) = true;
  }
}

kv::KvGeometry geometry(const model::ModelSpec& spec, const Settings& settings, int64_t context) {
  return {spec.n_layers(), spec.attention.n_kv_heads, spec.attention.head_dim,
          context,         settings.parallel,         kv_type_named(settings.kv_type).value_or(KvType::kF32)};
}

Result<int64_t> choose_context(const model::ModelSpec& spec, const Settings& settings, int64_t wanted,
                               int64_t budget_bytes) {
  if (settings.context > spec.context)
    return Error{ErrorCode::kUsage, "context " + std::to_string(settings.context) + " exceeds the " +
                                        std::to_string(spec.context) + " positions that the model was trained for"};
  if (settings.context > 0) return settings.context;
  if (wanted > 0) return std::min(wanted, spec.context);
  const int64_t per_position =
      std::max<int64_t>(1, kv::KvCache::bytes(geometry(spec, settings, KvView::kTile)) / KvView::kTile);
  const int64_t affordable = std::max<int64_t>(16, budget_bytes / 4 / per_position);
  return std::min(spec.context, affordable);
}

Error does_not_fit(const MemoryPlan& plan) {
  return {ErrorCode::kDoesNotFit,
          "the model needs " + mebibytes(plan.planned_bytes()) + " (weights " +
              mebibytes(plan.dense_bytes + plan.expert_bytes) + ", keys and values " + mebibytes(plan.kv_bytes) +
              " for " + std::to_string(plan.kv.capacity) + " positions x " + std::to_string(plan.kv.n_slots) +
              ", workspace " + mebibytes(plan.workspace_bytes + plan.scratch_bytes) + ", program and loading " +
              mebibytes(plan.rest_bytes()) + "), the budget is " + mebibytes(plan.budget_bytes) +
              "; raise --memory, or lower --context, --parallel or --prefill-chunk"};
}

// Everything that follows from the rows of a prefill pass.
void plan_passes(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings,
                 int64_t chunk, MemoryPlan& plan) {
  plan.decoder_limits.max_rows = chunk + settings.parallel;
  plan.decoder_limits.max_logit_rows = std::max<int64_t>(settings.parallel, std::min(kLogitRows, chunk));
  plan.backend.limits = model::backend_limits(spec, plan.decoder_limits);
  limit_to_encodings(weights, plan.backend);
  plan.workspace_bytes = model::Decoder::workspace_bytes(spec, plan.decoder_limits);
  plan.scratch_bytes = compute::cpu_backend_scratch_bytes(plan.backend);
}

void choose_prefill_chunk(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings,
                          MemoryPlan& plan) {
  const int64_t context = plan.decoder_limits.context;
  if (settings.prefill_chunk > 0)
    return plan_passes(spec, weights, settings, std::min<int64_t>(settings.prefill_chunk, context), plan);
  int64_t chunk = std::min(settings.parallel > 1 ? kSharedPrefillChunk : kPrefillChunk, context);
  for (;; chunk /= 2) {
    plan_passes(spec, weights, settings, chunk, plan);
    const bool fits = plan.planned_bytes() <= plan.budget_bytes &&
                      plan.workspace_bytes + plan.scratch_bytes <= plan.budget_bytes / 16;
    if (fits || chunk / 2 < kLeastPrefillChunk) return;
  }
}

}  // namespace

Result<MemoryPlan> make_plan(const model::ModelSpec& spec, const model::WeightPlan& weights, const Settings& settings,
                             int64_t wanted_context) {
  MemoryPlan plan;
  plan.budget_bytes = budget(settings);
  plan.dense_bytes = weights.dense_bytes();
  plan.expert_bytes = weights.expert_bytes();
  COLIBRI_TRY(check_settings(settings, plan.expert_bytes));
  COLIBRI_ASSIGN(const int64_t context, choose_context(spec, settings, wanted_context, plan.budget_bytes));

  plan.decoder_limits.max_segments = settings.parallel;
  plan.decoder_limits.context = context;
  plan.kv = geometry(spec, settings, context);
  plan.kv_bytes = kv::KvCache::bytes(plan.kv);
  plan.backend.isa = settings.isa;
  plan.backend.threads = settings.threads > 0 ? settings.threads : platform::usable_cores();
  plan.backend.router_threads = settings.router_threads;
  plan.backend.float_activations = settings.activations == "float";
  plan.loading_threads = std::min(plan.backend.threads, kMaxLoadingThreads);
  plan.staging_bytes = plan.loading_threads * weights.staging().bytes();
  plan.process_bytes = process_bytes(spec, plan);
  plan.peak_so_far = platform::peak_rss_bytes();
  choose_prefill_chunk(spec, weights, settings, plan);
  if (plan.planned_bytes() > plan.budget_bytes) return does_not_fit(plan);
  return plan;
}

}  // namespace colibri::engine
