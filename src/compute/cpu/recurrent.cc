// Recurrent mixers. Tasks are heads or channels of a sequence, never runs of its rows.
#include "base/check.h"
#include "compute/cpu/cpu_backend.h"

namespace colibri::compute {
namespace {

bool same_shape(const Columns& a, const Columns& b) { return a.rows == b.rows && a.width == b.width; }

void check_segments(std::span<const RecurrentSegment> segments, int64_t rows) {
  for (const RecurrentSegment& s : segments)
    COLIBRI_CHECK(s.state != nullptr && s.first_row >= 0 && s.n_rows >= 0 && s.first_row + s.n_rows <= rows);
}

/// Mean rows of a segment, for judging how much work a task is.
int64_t mean_rows(std::span<const RecurrentSegment> segments) {
  int64_t rows = 0;
  for (const RecurrentSegment& s : segments) rows += s.n_rows;
  return ceil_div(rows, std::max<int64_t>(1, static_cast<int64_t>(segments.size())));
}

void check_delta_rule(const DeltaRuleInputs& in, const DeltaRuleParams& p, const Columns& out) {
  COLIBRI_CHECK(p.n_key_heads > 0 && p.n_value_heads % p.n_key_heads == 0);
  COLIBRI_CHECK(in.q.width == p.n_key_heads * p.key_dim && same_shape(in.k, in.q) && in.q.rows == out.rows);
  COLIBRI_CHECK(out.width == p.n_value_heads * p.value_dim && same_shape(in.v, out));
  COLIBRI_CHECK(in.decay.rows == out.rows && in.beta.rows == out.rows && in.beta.width == p.n_value_heads);
  COLIBRI_CHECK(in.decay.width == p.n_value_heads * (p.channel_decay ? p.key_dim : 1));
}

void check_mamba2(const Mamba2Inputs& in, const Mamba2Params& p, const Columns& out) {
  COLIBRI_CHECK(p.n_groups > 0 && p.n_heads % p.n_groups == 0);
  COLIBRI_CHECK(out.width == p.n_heads * p.head_dim && same_shape(in.x, out));
  COLIBRI_CHECK(in.b.rows == out.rows && in.b.width == p.n_groups * p.state_size && same_shape(in.c, in.b));
  COLIBRI_CHECK(in.dt.rows == out.rows && in.dt.width == p.n_heads);
}

DeltaRuleJob delta_rule_job(const DeltaRuleInputs& in, const RecurrentSegment& s, const DeltaRuleParams& p,
                            int64_t head, const Columns& out) {
  const int64_t key_head = p.tiled ? head % p.n_key_heads : head / (p.n_value_heads / p.n_key_heads);
  DeltaRuleJob job;
  job.q = in.q.row(s.first_row) + key_head * p.key_dim;
  job.k = in.k.row(s.first_row) + key_head * p.key_dim;
  job.v = in.v.row(s.first_row) + head * p.value_dim;
  job.decay = in.decay.row(s.first_row) + head * (p.channel_decay ? p.key_dim : 1);
  job.beta = in.beta.row(s.first_row) + head;
  job.out = out.row(s.first_row) + head * p.value_dim;
  job.q_stride = in.q.stride;
  job.k_stride = in.k.stride;
  job.v_stride = in.v.stride;
  job.decay_stride = in.decay.stride;
  job.beta_stride = in.beta.stride;
  job.out_stride = out.stride;
  job.channel_decay = p.channel_decay;
  job.rows = s.n_rows;
  job.key_dim = p.key_dim;
  job.value_dim = p.value_dim;
  job.state = s.state + head * p.key_dim * p.value_dim;
  return job;
}

Mamba2Job mamba2_job(const Mamba2Inputs& in, const RecurrentSegment& s, const Mamba2Params& p, int64_t head,
                     const Columns& out) {
  const int64_t group = head / (p.n_heads / p.n_groups);
  Mamba2Job job;
  job.x = in.x.row(s.first_row) + head * p.head_dim;
  job.b = in.b.row(s.first_row) + group * p.state_size;
  job.c = in.c.row(s.first_row) + group * p.state_size;
  job.dt = in.dt.row(s.first_row) + head;
  job.out = out.row(s.first_row) + head * p.head_dim;
  job.x_stride = in.x.stride;
  job.b_stride = in.b.stride;
  job.c_stride = in.c.stride;
  job.dt_stride = in.dt.stride;
  job.out_stride = out.stride;
  job.rows = s.n_rows;
  job.head_dim = p.head_dim;
  job.state_size = p.state_size;
  job.a = p.a[head];
  job.dt_bias = p.dt_bias[head];
  job.d = p.d[head];
  job.dt_min = p.dt_min;
  job.dt_max = p.dt_max;
  job.state = s.state + head * p.head_dim * p.state_size;
  return job;
}

}  // namespace

void CpuBackend::mul(Columns a, Columns b, Columns out) {
  COLIBRI_CHECK(same_shape(a, out) && same_shape(b, out));
  for_each_row(out.rows, out.width, [&](int64_t r) { recurrent_.mul(a.row(r), b.row(r), out.width, out.row(r)); });
}

void CpuBackend::sigmoid(Columns x, Columns out) {
  COLIBRI_CHECK(same_shape(x, out));
  for_each_row(out.rows, out.width, [&](int64_t r) { recurrent_.sigmoid(x.row(r), out.width, out.row(r)); });
}

void CpuBackend::l2_norm(Columns x, int64_t head_dim, float scale, Columns y) {
  COLIBRI_CHECK(same_shape(x, y) && x.width % head_dim == 0);
  for_each_row(x.rows, x.width, [&](int64_t r) {
    for (int64_t c = 0; c < x.width; c += head_dim) recurrent_.l2_norm(x.row(r) + c, scale, head_dim, y.row(r) + c);
  });
}

void CpuBackend::causal_conv(Columns x, std::span<const RecurrentSegment> segments, const ConvParams& params,
                             Columns out) {
  constexpr int64_t kChannels = 64;
  COLIBRI_CHECK(same_shape(x, out) && params.kernel >= 2 && params.kernel <= kMaxConvKernel);
  check_segments(segments, x.rows);
  const int64_t parts = ceil_div(x.width, kChannels);
  const int64_t tasks = parts * static_cast<int64_t>(segments.size());
  for_each_row(tasks, mean_rows(segments) * kChannels, [&](int64_t task) {
    const RecurrentSegment& s = segments[static_cast<size_t>(task / parts)];
    const int64_t c = task % parts * kChannels;
    ConvJob job;
    job.x = x.row(s.first_row) + c;
    job.x_stride = x.stride;
    job.y = out.row(s.first_row) + c;
    job.y_stride = out.stride;
    job.rows = s.n_rows;
    job.channels = std::min(kChannels, x.width - c);
    job.all_channels = x.width;
    job.kernel = params.kernel;
    job.weight = params.weight + c;
    job.bias = params.bias != nullptr ? params.bias + c : nullptr;
    job.state = s.state + c;
    job.silu = params.silu;
    recurrent_.conv(&job);
  });
}

void CpuBackend::decay(Columns x, const DecayParams& params, Columns out) {
  COLIBRI_CHECK(same_shape(x, out) && params.channels > 0 && x.width % params.channels == 0);
  const bool one_a = params.channels > 1;
  const int64_t n = one_a ? params.channels : x.width;
  for_each_row(x.rows, x.width, [&](int64_t r) {
    for (int64_t c = 0; c < x.width; c += n) {
      const DecayJob job = {x.row(r) + c,  params.a + c / n, one_a, params.dt_bias + c, params.lower_bound, n,
                            out.row(r) + c};
      recurrent_.decay(&job);
    }
  });
}

void CpuBackend::delta_rule(const DeltaRuleInputs& in, std::span<const RecurrentSegment> segments,
                            const DeltaRuleParams& params, Columns out) {
  check_delta_rule(in, params, out);
  check_segments(segments, out.rows);
  const int64_t heads = params.n_value_heads;
  pool_->run(heads * static_cast<int64_t>(segments.size()), [&](int64_t task, int) {
    const RecurrentSegment& s = segments[static_cast<size_t>(task / heads)];
    const DeltaRuleJob job = delta_rule_job(in, s, params, task % heads, out);
    recurrent_.delta_rule(&job);
  });
}

void CpuBackend::mamba2(const Mamba2Inputs& in, std::span<const RecurrentSegment> segments, const Mamba2Params& params,
                        Columns out) {
  check_mamba2(in, params, out);
  check_segments(segments, out.rows);
  const int64_t heads = params.n_heads;
  pool_->run(heads * static_cast<int64_t>(segments.size()), [&](int64_t task, int) {
    const RecurrentSegment& s = segments[static_cast<size_t>(task / heads)];
    const Mamba2Job job = mamba2_job(in, s, params, task % heads, out);
    recurrent_.mamba2(&job);
  });
}

void CpuBackend::gated_norm(Columns x, Columns gate, const GatedNormParams& params, Columns out) {
  COLIBRI_CHECK(same_shape(x, out) && same_shape(gate, out) && params.group > 0 && x.width % params.group == 0);
  const auto kernel = recurrent_.gated_norm[static_cast<size_t>(params.form)];
  const bool own_weight = params.form == GatedNorm::kSiluThenNorm;
  for_each_row(x.rows, x.width, [&](int64_t r) {
    for (int64_t c = 0; c < x.width; c += params.group) {
      const GatedNormJob job = {x.row(r) + c, gate.row(r) + c, params.weight + (own_weight ? c : 0),
                                params.eps,   params.group,    out.row(r) + c};
      kernel(&job);
    }
  });
}

}  // namespace colibri::compute
