#include "engine/plan_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/io_choice.h"
#include "engine/plan.h"
#include "platform/disk.h"
#include "platform/memory.h"
#include "platform/memory_speed.h"

namespace colibri::engine {
namespace {

// What one token of one sequence at the beginning of a text asks for on average, when every expert is chosen equally
// often. Routing of real texts is less even, so caches do better.
struct TokenCost {
  double uses = 0, misses = 0;  // of experts
  double layers_that_wait = 0;  // layers of which at least one expert is missing
  double disk_bytes = 0;
  double memory_bytes = 0;  // weights that are multiplied
};

TokenCost cost_of_token(const model::ModelSpec& spec, const model::WeightPlan& weights, const MemoryPlan& plan) {
  TokenCost cost;
  cost.memory_bytes = static_cast<double>(plan.dense_bytes);
  // The embedding table comes first; one row of it is looked up, unless it is the output head as well.
  if (!spec.tied_head && !weights.matrices().empty())
    cost.memory_bytes -= static_cast<double>(weights.matrices().front().source.packed_size());
  const double k = spec.moe.router.top_k;
  for (int layer = 0; layer < spec.n_moe_layers(); ++layer) {
    const auto first = static_cast<size_t>(layer) * static_cast<size_t>(spec.moe.n_stored());
    const store::ExpertSource& expert = weights.experts()[first];  // its layer's are all alike
    const auto slot_class = static_cast<size_t>(plan.slots.class_of_layer[static_cast<size_t>(layer)]);
    const store::SlotPlan::Class& slots = plan.slots.classes[slot_class];
    const double miss = 1.0 - static_cast<double>(slots.slots) / static_cast<double>(slots.experts);
    cost.uses += k;
    cost.misses += k * miss;
    cost.layers_that_wait += 1.0 - std::pow(1.0 - miss, k);
    cost.disk_bytes += k * miss * static_cast<double>(expert.file_size());
    cost.memory_bytes += k * static_cast<double>(expert.packed_size());
  }
  return cost;
}

Json disk_json(const platform::ReadSpeed& speed) {
  Json json;
  json.set("bytes_per_second", std::round(speed.bytes_per_second));
  json.set("latency_seconds", speed.latency_seconds);
  json.set("method", speed.direct ? "direct" : "buffered");
  json.set("read_bytes", speed.bytes);
  json.set("cached_bytes", speed.cached_bytes);
  return json;
}

Json per_second(double seconds) { return seconds > 0 ? Json(1.0 / seconds) : Json(); }

// A read can only begin when the router has spoken, and its expert is multiplied when it is there: the times add up.
Json bounds_json(const TokenCost& cost, const platform::ReadSpeed& disk, double memory_bytes_per_second) {
  const double reading = cost.disk_bytes / disk.bytes_per_second + cost.layers_that_wait * disk.latency_seconds;
  const double multiplying = cost.memory_bytes / memory_bytes_per_second;
  Json json;
  json.set("disk_tokens_per_second", per_second(reading));
  json.set("memory_tokens_per_second", per_second(multiplying));
  json.set("tokens_per_second", per_second(reading + multiplying));
  return json;
}

void add_plan(const MemoryPlan& plan, const Settings& settings, Json& json) {
  const int64_t workspace = plan.workspace_bytes + plan.scratch_bytes + plan.reader_bytes;
  json.set("budget_bytes", plan.budget_bytes);
  json.set("planned_bytes", plan.planned_bytes());
  json.set("minimum_bytes", plan.minimum_bytes);
  json.set("dense_bytes", plan.dense_bytes);
  json.set("kv_bytes", plan.kv_bytes);
  json.set("workspace_bytes", workspace);
  json.set("prefix_bytes", plan.prefix_bytes);
  json.set("process_bytes",
           plan.planned_bytes() - plan.dense_bytes - plan.expert_bytes - plan.kv_bytes - plan.prefix_bytes - workspace);
  json.set("expert_bytes_total", plan.expert_bytes_total);
  json.set("expert_bytes_resident", plan.expert_bytes);
  json.set("expert_slots", plan.slots.slots());
  json.set("streams", plan.streams);
  json.set("context", plan.decoder_limits.context);
  json.set("parallel", settings.parallel);
  json.set("kv_type", settings.kv_type);
  json.set("prefill_chunk", plan.prefill_chunk);
  json.set("threads", plan.backend.threads);
  if (!plan.note.empty()) json.set("note", plan.note);
}

}  // namespace

Result<Json> report_plan(const std::string& path, const OpenOptions& options) {
  COLIBRI_ASSIGN(const std::unique_ptr<OpenedModel> model, OpenedModel::open(path, options.without_text));
  const model::ModelSpec& spec = model->description.spec;
  const model::WeightPlan& weights = *model->weights;
  const formats::TensorCatalog& catalog = model->catalog;
  COLIBRI_ASSIGN(const MemoryPlan plan, make_plan(spec, weights, options.settings, options.wanted_context));
  const IoChoice io = choose_io(catalog, weights, plan, options.settings);
  // What memory answers says nothing about the disk; experts that stream are measured the way they will be read.
  const bool direct = !plan.streams || io.access == platform::Access::kDirect;
  COLIBRI_ASSIGN(const platform::ReadSpeed disk,
                 platform::measure_reads(ranges_to_read(catalog, weights), pattern_of(plan, direct)));
  COLIBRI_ASSIGN(const double memory, platform::measure_memory_read(plan.backend.threads));
  const TokenCost cost = cost_of_token(spec, weights, plan);
  Json json;
  json.set("model", path);
  add_plan(plan, options.settings, json);
  json.set("experts", static_cast<int64_t>(weights.experts().size()));
  json.set("io", io.name);
  json.set("io_reason", io.reason);
  json.set("expert_hit_rate", cost.uses > 0 ? Json(1.0 - cost.misses / cost.uses) : Json());
  json.set("bytes_per_token", std::round(cost.disk_bytes));
  json.set("disk", disk_json(disk));
  json.set("memory_bytes_per_second", std::round(memory));
  json.set("bounds", bounds_json(cost, disk, memory));
  return json;
}

}  // namespace colibri::engine
