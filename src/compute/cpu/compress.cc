// Pooling of rows into entries. Tasks are channels of a sequence, never runs of its rows.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

void check_compress(const CompressSegment& s, const CompressParams& p, const Columns& kv, const Columns& out) {
  COLIBRI_CHECK(s.state != nullptr && s.first_row >= 0 && s.n_rows >= 0 && s.first_row + s.n_rows <= kv.rows);
  COLIBRI_CHECK(s.first_position >= 0 && s.first_entry >= 0 && s.first_entry + s.n_entries(p.rate) <= out.rows);
}

CompressJob compress_job(const Columns& kv, const Columns& gate, const CompressSegment& s, const CompressParams& p,
                         const Columns& out) {
  CompressJob job;
  job.kv = kv.row(s.first_row);
  job.gate = gate.row(s.first_row);
  job.kv_stride = kv.stride;
  job.gate_stride = gate.stride;
  job.bias = p.bias;
  job.state = s.state;
  job.out = out.row(s.first_entry);
  job.out_stride = out.stride;
  job.rows = s.n_rows;
  job.first_position = s.first_position;
  job.channels = job.all_channels = p.channels;
  job.halves = p.overlap ? 2 : 1;
  job.rate = p.rate;
  return job;
}

}  // namespace

void CpuBackend::compress(Columns kv, Columns gate, std::span<const CompressSegment> segments,
                          const CompressParams& params, Columns out) {
  constexpr int64_t kChannels = 64;
  COLIBRI_CHECK(params.rate > 0 && params.channels > 0 && out.width == params.channels);
  COLIBRI_CHECK(kv.width == params.row_width() && gate.width == kv.width && gate.rows == kv.rows);
  for (const CompressSegment& s : segments) check_compress(s, params, kv, out);
  const int64_t parts = ceil_div(params.channels, kChannels);
  const auto n = static_cast<int64_t>(segments.size());
  for_each_row(n * parts, ceil_div(kv.rows, std::max<int64_t>(1, n)) * 4 * kChannels, [&](int64_t task) {
    const int64_t c = task % parts * kChannels;
    CompressJob job = compress_job(kv, gate, segments[static_cast<size_t>(task / parts)], params, out);
    for (const float** p : {&job.kv, &job.gate, &job.bias}) *p += c;
    job.state += c;
    job.out += c;
    job.channels = std::min(kChannels, params.channels - c);
    recurrent_.compress(&job);
  });
}

}  // namespace colibri::compute
