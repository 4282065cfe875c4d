// Pooling of runs of rows into entries: Backend::compress. Over the F32x16 included before.
//
// Lanes are channels and time is a loop, as in recurrent_inl.h. The state holds the rows that an entry may still need,
// in a ring, with the bias in their gates: row p lies in line p % lines. A line is its values, then its gates.
#pragma once

#include <stdint.h>

#include "compute/cpu/kernels/macros.h"
#include "compute/cpu/kernels/math_inl.h"
#include "compute/cpu/kernels/recurrent_table.h"

namespace colibri::compute {
namespace {

/// The rows that one entry is made of: of the half that they count with, in ascending position.
struct PooledRows {
  const CompressJob& job;
  int64_t first;    ///< position
  int64_t earlier;  ///< so many of them belong to the window before, and count with their first half
  int64_t count;

  const float* values(int64_t i) const {
    const int64_t half = job.halves == 2 && i >= earlier ? job.all_channels : 0;
    return job.state + (first + i) % job.lines() * 2 * job.row_width() + half;
  }
};

COLIBRI_INLINE F32x16 pool(const PooledRows& rows, int64_t channel, int64_t lanes) {
  const int64_t gate = rows.job.row_width() + channel;
  F32x16 largest = broadcast(-__builtin_inff()), sum = zero(), pooled = zero();
  for (int64_t i = 0; i < rows.count; ++i) largest = maximum(largest, load_run(rows.values(i) + gate, lanes));
  for (int64_t i = 0; i < rows.count; ++i) {
    const F32x16 weight = small_exponential(sub(load_run(rows.values(i) + gate, lanes), largest));
    sum = add(sum, weight);
    pooled = fma(weight, load_run(rows.values(i) + channel, lanes), pooled);
  }
  return div(pooled, sum);
}

void keep_row(const CompressJob& job, int64_t row) {
  const int64_t position = job.first_position + row;
  float* line = job.state + position % job.lines() * 2 * job.row_width();
  for (int64_t half = 0; half < job.halves; ++half) {
    const int64_t at = half * job.all_channels;
    const float *kv = job.kv + row * job.kv_stride + at, *gate = job.gate + row * job.gate_stride + at;
    const float* bias = job.bias + position % job.rate * job.row_width() + at;
    for_each_run(job.channels, [&](int64_t i, int64_t lanes) {
      store_run(line + at + i, lanes, load_run(kv + i, lanes));
      store_run(line + job.row_width() + at + i, lanes, add(load_run(gate + i, lanes), load_run(bias + i, lanes)));
    });
  }
}

void compress(const CompressJob* job) {
  float* out = job->out;
  for (int64_t row = 0; row < job->rows; ++row) {
    keep_row(*job, row);
    const int64_t end = job->first_position + row + 1;
    if (end % job->rate != 0) continue;
    const int64_t earlier = job->halves == 2 && end > job->rate ? job->rate : 0;
    const PooledRows rows{*job, end - job->rate - earlier, earlier, job->rate + earlier};
    for_each_run(job->channels, [&](int64_t i, int64_t lanes) { store_run(out + i, lanes, pool(rows, i, lanes)); });
    out += job->out_stride;
  }
}

}  // namespace
}  // namespace colibri::compute
