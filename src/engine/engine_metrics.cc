// What Engine::metrics_json() lists: the engine's own numbers, the store's, and the plan's.
#include "engine/engine.h"

namespace colibri::engine {
namespace {

void add_store(const store::StoreStatistics& s, MetricList& list) {
  const auto one = [&list](const char* name, const char* kind, const char* help, double value) {
    list.metric(name, kind, help).value(value);
  };
  one("expert_hits_total", "counter", "Experts that a pass wanted and that were in memory",
      static_cast<double>(s.hits));
  one("expert_misses_total", "counter", "Experts that a pass wanted and had to wait for",
      static_cast<double>(s.misses));
  one("expert_slots", "gauge", "Experts that have room in memory", static_cast<double>(s.slots));
  one("experts_resident", "gauge", "Experts in memory", static_cast<double>(s.resident));
  one("expert_evictions_total", "counter", "Experts that made room", static_cast<double>(s.evictions));
  list.metric("expert_reads_total", "counter", "Experts read, by why");
  list.value(static_cast<double>(s.demanded), {{"why", "wanted"}});
  list.value(static_cast<double>(s.guessed), {{"why", "ahead"}});
  one("expert_reads_ahead_used_total", "counter", "Experts read ahead that were wanted then",
      static_cast<double>(s.guesses_used));
  one("expert_read_bytes_total", "counter", "Bytes read from the disk", static_cast<double>(s.bytes_read));
  one("expert_read_busy_seconds_total", "counter", "With at least one read under way", s.reading_seconds);
  one("expert_wait_seconds_total", "counter", "That passes waited for experts", s.wait_seconds);
  one("expert_slowest_read_seconds", "gauge", "The slowest read so far", s.slowest_read_seconds);
  list.metric("expert_read_errors_total", "counter", "Reads that failed, by kind");
  list.value(static_cast<double>(s.failed_reads), {{"kind", "failed"}});
  list.value(static_cast<double>(s.overdue_reads), {{"kind", "overdue"}});
}

void add_plan(const MemoryPlan& plan, MetricList& list) {
  list.metric("memory_budget_bytes", "gauge", "What the engine may take in all")
      .value(static_cast<double>(plan.budget_bytes));
  list.metric("memory_planned_bytes", "gauge", "What the plan gave to each purpose");
  const std::pair<const char*, int64_t> parts[] = {{"dense", plan.dense_bytes},
                                                   {"experts", plan.expert_bytes},
                                                   {"kv", plan.kv_bytes},
                                                   {"prefixes", plan.prefix_bytes},
                                                   {"workspace", plan.workspace_bytes + plan.scratch_bytes},
                                                   {"rest", plan.rest_bytes()}};
  for (const auto& [purpose, bytes] : parts) list.value(static_cast<double>(bytes), {{"purpose", purpose}});
  list.metric("sequence_slots", "gauge", "Sequences that can run at once").value(static_cast<double>(plan.kv.n_slots));
  list.metric("context_tokens", "gauge", "Tokens that a sequence can hold")
      .value(static_cast<double>(plan.kv.capacity));
}

void add_prefixes(const PrefixNumbers& n, MetricList& list) {
  const auto one = [&list](const char* name, const char* kind, const char* help, const Counter<int64_t>& value) {
    list.metric(name, kind, help).value(static_cast<double>(value.get()));
  };
  one("prefix_blocks", "gauge", "Blocks of computed prefixes that have room in memory", n.blocks);
  one("prefix_blocks_used", "gauge", "Blocks of computed prefixes in memory", n.blocks_used);
  one("prefix_lookups_total", "counter", "Requests that looked for a computed prefix", n.lookups);
  one("prefix_hits_total", "counter", "Requests that found one", n.hits);
  one("prefix_evictions_total", "counter", "Blocks that made room", n.evicted);
  one("prefix_disk_bytes", "gauge", "Of prefix files", n.disk_bytes);
  one("prefix_disk_reads_total", "counter", "Blocks read from the disk", n.disk_reads);
  one("prefix_disk_writes_total", "counter", "Blocks written to the disk", n.disk_writes);
  one("prefix_disk_errors_total", "counter", "Errors of the disk, and files that were not believed", n.disk_errors);
}

}  // namespace

Json Engine::metrics_json() const {
  MetricList list;
  add_metrics(metrics_, list);
  add_store(store_statistics(), list);
  add_plan(plan_, list);
  if (prefixes_) add_prefixes(metrics_.prefixes, list);
  return list.take();
}

}  // namespace colibri::engine
