#include "engine/io_choice.h"

#include <chrono>
#include <cmath>
#include <span>

#include "platform/memory.h"

namespace colibri::engine {
namespace {

using platform::Access;

// Direct reads leave memory alone and cost no copy, so the page cache has to be clearly faster, every time: disks are
// not steady.
constexpr double kClearlyFaster = 1.5;
constexpr int kRounds = 2;
constexpr std::chrono::milliseconds kEach(80);

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

// Bytes per second; 0 when nothing could be measured, or only what memory holds already.
double measure(std::span<const platform::FileRange> ranges, const MemoryPlan& plan, bool direct) {
  platform::ReadPattern pattern = pattern_of(plan, direct);
  pattern.longest = kEach;
  const auto speed = platform::measure_reads(ranges, pattern);
  return speed.ok() && speed->cached_bytes == 0 ? speed->bytes_per_second : 0;
}

std::string megabytes(double bytes_per_second) {
  return std::to_string(std::llround(bytes_per_second / 1e6)) + " MB/s";
}

}  // namespace

std::vector<platform::FileRange> ranges_to_read(const formats::TensorCatalog& catalog,
                                                const model::WeightPlan& weights) {
  std::vector<platform::FileRange> ranges;
  const auto add = [&](const store::MatrixSource& source) {
    if (source.n == 0) return;
    const store::Extent own = store::extents_of(source, 0, source.length()).list.front();
    const std::string& path = catalog.files()[static_cast<size_t>(own.tensor->file)].path();
    ranges.push_back({path, own.offset(), own.bytes});
  };
  for (const store::ExpertSource& expert : weights.experts())
    for (const store::MatrixSource* source : {&expert.gate, &expert.up, &expert.down}) add(*source);
  if (ranges.empty())
    for (const model::MatrixJob& job : weights.matrices()) add(job.source);
  return ranges;
}

platform::ReadPattern pattern_of(const MemoryPlan& plan, bool direct) {
  const store::ReaderOptions readers = plan.streams ? plan.readers : store::ReaderOptions();
  platform::ReadPattern pattern;
  pattern.piece_bytes = readers.piece_bytes;
  pattern.in_flight = readers.threads;
  pattern.direct = direct;
  return pattern;
}

IoChoice choose_io(const formats::TensorCatalog& catalog, const model::WeightPlan& weights, const MemoryPlan& plan,
                   const Settings& settings) {
  if (!plan.streams) return {Access::kBuffered, "buffered", "everything is read once", false, 0};
  if (settings.io == "buffered") return {Access::kBuffered, "buffered", "as asked", false, 0};
  const bool asked = settings.io == "direct";
  if (!asked && page_cache_has_room(plan))
    return {Access::kBuffered, "buffered", "the page cache has room for the experts that are not in slots", false, 0};
  const std::vector<platform::FileRange> ranges = ranges_to_read(catalog, weights);
  if (const Status works = direct_reads_work(catalog); !works.ok())
    return {Access::kBufferedDropped, "buffered", works.error().message, asked, measure(ranges, plan, false)};
  if (asked) return {Access::kDirect, "direct", "as asked", false, measure(ranges, plan, true)};
  double direct = 0, buffered = 0;
  bool clearly = true;
  for (int round = 0; round < kRounds; ++round) {
    const double one = measure(ranges, plan, true), other = measure(ranges, plan, false);
    clearly = clearly && other > kClearlyFaster * one;
    direct += one / kRounds;
    buffered += other / kRounds;
  }
  const std::string found = "direct reads gave " + megabytes(direct) + ", the page cache " + megabytes(buffered);
  if (clearly) return {Access::kBufferedDropped, "buffered", found, false, buffered};
  return {Access::kDirect, "direct", "the page cache has no room for experts; " + found, false, direct};
}

}  // namespace colibri::engine
