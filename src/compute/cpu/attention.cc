// Keys and values into the cache, and attention over it. Tasks are (segment, KV head, block of query rows).
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

static_assert(kKeyTile == kKeyTileWidth && kKeyTile == KvView::kTile && kPanelWidth == kLanes);
static_assert(kKvF32 == static_cast<int>(KvType::kF32) && kKvF16 == static_cast<int>(KvType::kF16) &&
              kKvQ8 == static_cast<int>(KvType::kQ8));

int64_t position_count(const AttentionSegment& s) { return s.first_position + s.n_rows; }

KvTiles tiles_of(const KvView& kv, int64_t head) {
  auto* tiles = reinterpret_cast<unsigned char*>(kv.data) + head * kv.head_bytes();
  return {tiles, kv.tile_bytes(), kv.key_bytes(), kv.head_dim, static_cast<KvElements>(kv.type)};
}

/// Blocks of kAttentionRows items (rows times heads of a group) per KV head of a segment.
struct AttentionBlocks {
  int64_t group, items, blocks, tasks;

  AttentionBlocks(const AttentionSegment& s, int n_heads)
      : group(n_heads / s.kv.kv_heads),
        items(s.n_rows * group),
        blocks(ceil_div(items, kAttentionRows)),
        tasks(blocks * s.kv.kv_heads) {}
};

AttentionJob attention_job(const AttentionSegment& s, const AttentionBlocks& b, int64_t task) {
  const int64_t head = task / b.blocks;
  const int64_t block = b.blocks - 1 - task % b.blocks;  // the last rows see most keys: begin with them
  AttentionJob job;
  job.kv = tiles_of(s.kv, head);
  job.group = b.group;
  job.first_item = block * kAttentionRows;
  job.items = std::min<int64_t>(kAttentionRows, b.items - job.first_item);
  job.first_position = s.first_position;
  return job;
}

}  // namespace

void CpuBackend::kv_append(Rows keys, Rows values, std::span<const AttentionSegment> segments) {
  int64_t tasks = 0;
  for (const AttentionSegment& s : segments) {
    COLIBRI_CHECK(position_count(s) <= s.kv.capacity && s.first_row + s.n_rows <= keys.rows);
    COLIBRI_CHECK(keys.width == int64_t{s.kv.kv_heads} * s.kv.head_dim && values.width == keys.width);
    tasks += s.kv.kv_heads;
  }
  for_each_row(tasks, ceil_div(keys.rows * keys.width, std::max<int64_t>(1, tasks)), [&](int64_t task) {
    const AttentionSegment* s = segments.data();
    for (; task >= s->kv.kv_heads; ++s) task -= s->kv.kv_heads;
    const int64_t column = task * s->kv.head_dim;
    const KvAppendJob job = {tiles_of(s->kv, task),
                             keys.row(s->first_row) + column,
                             values.row(s->first_row) + column,
                             keys.width,
                             s->n_rows,
                             s->first_position};
    kernels_.append_kv(&job);
  });
}

void CpuBackend::attention(Rows q, std::span<const AttentionSegment> segments, const AttentionParams& params,
                           Rows out) {
  int64_t tasks = 0;
  for (const AttentionSegment& s : segments) {
    COLIBRI_CHECK(s.kv.head_dim <= limits_.head_dim && params.n_heads % s.kv.kv_heads == 0);
    COLIBRI_CHECK(position_count(s) <= s.kv.capacity && s.first_row + s.n_rows <= q.rows && out.rows == q.rows);
    COLIBRI_CHECK(q.width == int64_t{params.n_heads} * s.kv.head_dim && out.width == q.width);
    tasks += AttentionBlocks(s, params.n_heads).tasks;
  }
  pool_->run(tasks, [&](int64_t task, int thread) {
    const AttentionSegment* s = segments.data();
    for (int64_t n; task >= (n = AttentionBlocks(*s, params.n_heads).tasks); ++s) task -= n;
    const AttentionBlocks blocks(*s, params.n_heads);
    AttentionJob job = attention_job(*s, blocks, task);
    const int64_t column = task / blocks.blocks * blocks.group * s->kv.head_dim;
    job.q = q.row(s->first_row) + column;
    job.out = out.row(s->first_row) + column;
    job.row_stride = q.width;
    job.scale = params.scale;
    job.scratch = scratch_.attention + thread * Scratch::attention_floats(limits_);
    kernels_.attention(&job);
  });
}

}  // namespace colibri::compute
