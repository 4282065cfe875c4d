#include "engine/io_choice.h"

#include <algorithm>

#include "platform/memory.h"

namespace colibri::engine {
namespace {

using platform::Access;

Status direct_reads_work(const formats::TensorCatalog& catalog) {
  for (const platform::File& file : catalog.files()) {
    const auto raw = platform::RawFile::reopen(file, Access::kDirect);
    if (!raw.ok()) return raw.error();
  }
  return {};
}

// What stays free beside the plan could hold everything that is read again and again.
bool page_cache_has_room(const MemoryPlan& plan) {
  const int64_t free = platform::available_memory_bytes() + platform::rss_bytes() - plan.planned_bytes();
  return free > plan.expert_bytes_total - plan.expert_bytes;
}

}  // namespace

IoChoice choose_io(const formats::TensorCatalog& catalog, const MemoryPlan& plan, const Settings& settings) {
  if (!plan.streams) return {Access::kBuffered, "buffered", "everything is read once", false};
  if (settings.io == "buffered") return {Access::kBuffered, "buffered", "as asked", false};
  if (settings.io == "auto" && page_cache_has_room(plan))
    return {Access::kBuffered, "buffered", "the page cache has room for the experts that are not in slots", false};
  if (const Status works = direct_reads_work(catalog); !works.ok())
    return {Access::kBufferedDropped, "buffered", works.error().message, settings.io == "direct"};
  return {Access::kDirect, "direct",
          settings.io == "direct" ? "as asked" : "the page cache has no room for experts, so reads go past it", false};
}

}  // namespace colibri::engine
