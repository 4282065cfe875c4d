// Keys and values into the cache, and attention over it. Tasks are (segment, KV head, block of query rows).
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"
#include "compute/cpu/kv_tiles.h"

namespace colibri::compute {
namespace {

static_assert(kKeyTile == kKeyTileWidth && kKeyTile == KvView::kTile && kPanelWidth == kLanes);
static_assert(kKvF32 == static_cast<int>(KvType::kF32) && kKvF16 == static_cast<int>(KvType::kF16) &&
              kKvQ8 == static_cast<int>(KvType::kQ8));

constexpr int64_t kLeastBlock = 32;  // items: every block reads, and where needed expands, the keys again

/// Items (rows times heads of a group) of a segment, in blocks per KV head.
struct AttentionBlocks {
  int64_t group, items, blocks, tasks;

  AttentionBlocks(const AttentionSegment& s, int n_heads, int64_t block)
      : group(n_heads / s.kv.kv_heads),
        items(s.n_rows * group),
        blocks(ceil_div(items, block)),
        tasks(blocks * s.kv.kv_heads) {}
};

int64_t count_tasks(std::span<const AttentionSegment> segments, int n_heads, int64_t block) {
  int64_t tasks = 0;
  for (const AttentionSegment& s : segments) tasks += AttentionBlocks(s, n_heads, block).tasks;
  return tasks;
}

/// Items of a block: fewer while threads would have nothing to do. A result does not depend on it.
int64_t choose_block(std::span<const AttentionSegment> segments, int n_heads, int threads) {
  int64_t block = kAttentionRows;
  while (block / 2 >= kLeastBlock && count_tasks(segments, n_heads, block) < threads) block /= 2;
  return block;
}

/// The view still holds every key that the rows see: all positions, or what the first row looks back and the others.
bool holds_visible(const AttentionSegment& s, const AttentionParams& p) {
  if (s.first_position + s.n_rows <= s.kv.capacity) return true;
  const int64_t reach = p.window > 0 && p.chunk > 0 ? std::min(p.window, p.chunk) : std::max(p.window, p.chunk);
  return reach > 0 && reach + s.n_rows - 1 <= s.kv.capacity;
}

/// The kernels read both alike.
bool same_shape(const KvView& a, const KvView& b) {
  return a.type == b.type && a.kv_heads == b.kv_heads && a.key_dim == b.key_dim && a.value_dim == b.value_dim &&
         a.latent == b.latent;
}

void check_attention(const AttentionSegment& s, const AttentionParams& p, const BackendLimits& limits, Rows q,
                     Rows out) {
  COLIBRI_CHECK(s.kv.key_dim <= limits.key_dim && s.kv.value_dim <= limits.value_dim && s.kv.value_dim > 0);
  COLIBRI_CHECK(!s.kv.latent || s.kv.value_dim <= s.kv.key_dim);
  COLIBRI_CHECK(p.n_heads % s.kv.kv_heads == 0 && holds_visible(s, p));
  COLIBRI_CHECK(s.first_row + s.n_rows <= q.rows && out.rows == q.rows);
  COLIBRI_CHECK(q.width == int64_t{p.n_heads} * s.kv.key_dim && out.width == int64_t{p.n_heads} * s.kv.value_dim);
  const int64_t end = s.first_position + s.n_rows, sets = s.entries.data != nullptr ? end / s.rate : end;
  COLIBRI_CHECK(p.allowed.words == nullptr || sets <= p.allowed.words_per_row * kKeyTile);
  COLIBRI_CHECK(s.entries.data == nullptr || (s.rate > 0 && sets <= s.entries.capacity && same_shape(s.entries, s.kv)));
}

AttentionJob attention_job(const AttentionSegment& s, const AttentionParams& p, Rows q, Rows out) {
  AttentionJob job;
  job.q = q.row(s.first_row);
  job.out = out.row(s.first_row);
  job.q_stride = q.width;
  job.out_stride = out.width;
  job.sinks = p.sinks;
  if (p.allowed.words != nullptr) job.allowed = p.allowed.words + s.first_row * p.allowed.words_per_row;
  job.allowed_stride = p.allowed.words_per_row;
  job.window = p.window;
  job.chunk = p.chunk;
  job.first_position = s.first_position;
  job.scale = p.scale;
  job.soft_cap = p.soft_cap;
  if (s.entries.data != nullptr) job.rate = s.rate;
  return job;
}

/// Narrows the job of a segment to one of its tasks.
void take_task(const AttentionSegment& s, const AttentionBlocks& b, int64_t block, int64_t task, AttentionJob& job) {
  const int64_t head = task / b.blocks;
  const int64_t number = b.blocks - 1 - task % b.blocks;  // the last rows see most keys: begin with them
  job.kv = tiles_of(s.kv, head);
  if (job.rate > 0) job.entries = tiles_of(s.entries, head);
  job.q += head * b.group * s.kv.key_dim;
  job.out += head * b.group * s.kv.value_dim;
  if (job.sinks != nullptr) job.sinks += head * b.group;
  job.group = b.group;
  job.first_item = number * block;
  job.items = std::min(block, b.items - job.first_item);
}

}  // namespace

void CpuBackend::kv_append(Rows keys, Rows values, std::span<const AttentionSegment> segments) {
  int64_t tasks = 0;
  for (const AttentionSegment& s : segments) {
    COLIBRI_CHECK(s.n_rows <= s.kv.capacity && s.first_row + s.n_rows <= keys.rows);
    COLIBRI_CHECK(keys.width == int64_t{s.kv.kv_heads} * s.kv.key_dim);
    COLIBRI_CHECK(values.width == int64_t{s.kv.kv_heads} * s.kv.stored_value_dim());
    tasks += s.kv.kv_heads;
  }
  for_each_row(tasks, ceil_div(keys.rows * keys.width, std::max<int64_t>(1, tasks)), [&](int64_t task) {
    const AttentionSegment* s = segments.data();
    for (; task >= s->kv.kv_heads; ++s) task -= s->kv.kv_heads;
    KvAppendJob job;
    job.kv = tiles_of(s->kv, task);
    job.keys = keys.row(s->first_row) + task * s->kv.key_dim;
    if (values.width > 0) job.values = values.row(s->first_row) + task * s->kv.value_dim;
    job.key_stride = keys.width;
    job.value_stride = values.width;
    job.rows = s->n_rows;
    job.first_position = s->first_position;
    kernels_.append_kv(&job);
  });
}

void CpuBackend::attention(Rows q, std::span<const AttentionSegment> segments, const AttentionParams& params,
                           Rows out) {
  for (const AttentionSegment& s : segments) check_attention(s, params, limits_, q, out);
  const int64_t block = choose_block(segments, params.n_heads, pool_->threads());
  pool_->run(count_tasks(segments, params.n_heads, block), [&](int64_t task, int thread) {
    const AttentionSegment* s = segments.data();
    for (int64_t n; task >= (n = AttentionBlocks(*s, params.n_heads, block).tasks); ++s) task -= n;
    AttentionJob job = attention_job(*s, params, q, out);
    take_task(*s, AttentionBlocks(*s, params.n_heads, block), block, task, job);
    job.scratch = of_thread(scratch_.attention, Scratch::attention_floats(limits_), thread);
    kernels_.attention(&job);
  });
}

}  // namespace colibri::compute
