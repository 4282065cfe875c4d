// Mixers with a state of fixed size instead of keys and values: the delta rule (Gated DeltaNet, arXiv 2412.06464; Kimi
// Delta Attention, arXiv 2510.26692), Mamba-2 (arXiv 2405.21060), short convolutions. Always row after row.
#include <cmath>

#include "model/decoder.h"

namespace colibri::model {
namespace {

using compute::Columns;

constexpr int64_t aligned_floats(int64_t n) { return (n + 15) / 16 * 16; }

// Where the parts of a layer's state begin.
struct DeltaState {
  int64_t q, k, v, matrix, end;

  explicit DeltaState(const DeltaSpec& d) {
    q = 0;
    k = q + aligned_floats(compute::conv_state_floats(d.conv_kernel, d.key_width()));
    v = k + aligned_floats(compute::conv_state_floats(d.conv_kernel, d.key_width()));
    matrix = v + aligned_floats(compute::conv_state_floats(d.conv_kernel, d.value_width()));
    end = matrix + aligned_floats(int64_t{d.n_value_heads} * d.key_dim * d.value_dim);
  }
};

struct MambaState {
  int64_t conv, matrix, end;

  explicit MambaState(const MambaSpec& m) {
    conv = 0;
    matrix = aligned_floats(compute::conv_state_floats(m.conv_kernel, m.conv_width()));
    end = matrix + aligned_floats(int64_t{m.inner()} * m.state_dim);
  }
};

}  // namespace

std::vector<int64_t> state_floats(const ModelSpec& spec) {
  std::vector<int64_t> floats;
  for (const LayerSpec& layer : spec.layers) {
    int64_t n = 0;
    if (layer.mixer == Mixer::kAttention) n = compressor_state_floats(spec.attention_of(layer));
    if (layer.mixer == Mixer::kDelta) n = DeltaState(spec.delta).end;
    if (layer.mixer == Mixer::kMamba) n = MambaState(spec.mamba).end;
    if (layer.mixer == Mixer::kShortConv) n = compute::conv_state_floats(spec.conv.kernel, spec.hidden_size);
    floats.push_back(n);
  }
  return floats;
}

std::span<const compute::RecurrentSegment> Decoder::states(int layer, const Batch& batch, int64_t offset) {
  states_.clear();  // capacity was reserved: no allocation
  for (const BatchSegment& segment : batch.segments)
    states_.push_back({parts_.states->state(segment.slot, layer) + offset, segment.first_row, segment.n_rows});
  return states_;
}

void Decoder::delta_rule(int layer, const Batch& batch, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const DeltaSpec& d = parts_.spec->delta;
  const DeltaWeights& w = layer_weights(layer).delta;
  const DeltaState at(d);
  const bool per_channel = d.decay != DeltaDecay::kPerHead;
  const Rows q = ws_.q.rows(x.rows, d.key_width()), k = ws_.k.rows(x.rows, d.key_width()),
             v = ws_.v.rows(x.rows, d.value_width()), z = ws_.gate.rows(x.rows, d.value_width()),
             beta = ws_.beta.rows(x.rows, d.n_value_heads), decay = ws_.decay.rows(x.rows, w.decay.n),
             mixed = ws_.attended.rows(x.rows, d.value_width());

  delta_inputs(d, w, x);
  backend.causal_conv(q, states(layer, batch, at.q), {d.conv_kernel, w.q_conv, nullptr, true}, q);
  backend.causal_conv(k, states(layer, batch, at.k), {d.conv_kernel, w.k_conv, nullptr, true}, k);
  backend.causal_conv(v, states(layer, batch, at.v), {d.conv_kernel, w.v_conv, nullptr, true}, v);
  backend.l2_norm(q, d.key_dim, static_cast<float>(1.0 / std::sqrt(static_cast<double>(d.key_dim))), q);
  backend.l2_norm(k, d.key_dim, 1.0f, k);
  backend.sigmoid(beta, beta);
  backend.decay(decay, {w.rate, w.step_bias, per_channel ? d.key_dim : 1, d.lower_bound}, decay);
  backend.delta_rule({q, k, v, decay, beta}, states(layer, batch, at.matrix),
                     {d.n_key_heads, d.n_value_heads, d.key_dim, d.value_dim, d.tiled_heads, per_channel}, mixed);
  const auto form = d.sigmoid_gate ? compute::GatedNorm::kNormThenSigmoid : compute::GatedNorm::kNormThenSilu;
  backend.gated_norm(mixed, z, {form, d.value_dim, w.norm, parts_.spec->norm_eps}, mixed);
  backend.matmul(mixed, w.output, nullptr, out);
}

void Decoder::delta_inputs(const DeltaSpec& d, const DeltaWeights& w, Rows x) {
  compute::Backend& backend = *parts_.backend;
  const Rows q = ws_.q.rows(x.rows, d.key_width()), k = ws_.k.rows(x.rows, d.key_width()),
             v = ws_.v.rows(x.rows, d.value_width()), z = ws_.gate.rows(x.rows, d.value_width()),
             beta = ws_.beta.rows(x.rows, d.n_value_heads), decay = ws_.decay.rows(x.rows, w.decay.n);
  compute::Product products[6] = {{&w.q, nullptr, q}, {&w.k, nullptr, k}, {&w.v, nullptr, v}, {&w.beta, nullptr, beta}};
  size_t n = 4;
  if (d.gate_rank == 0) {
    products[n++] = {&w.z, nullptr, z};
    products[n++] = {&w.decay, nullptr, decay};
  }
  backend.multiply(x, {products, n});
  if (d.gate_rank == 0) return;
  const Rows down = ws_.down.rows(x.rows, d.gate_rank);
  backend.matmul(x, w.z_down, nullptr, down);
  backend.matmul(down, w.z, nullptr, z);
  backend.matmul(x, w.decay_down, nullptr, down);
  backend.matmul(down, w.decay, nullptr, decay);
}

void Decoder::mamba(int layer, const Batch& batch, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const MambaSpec& m = parts_.spec->mamba;
  const MambaWeights& w = layer_weights(layer).mamba;
  const MambaState at(m);
  const int64_t inner = m.inner(), group = int64_t{m.n_groups} * m.state_dim;
  const Rows z = ws_.gate.rows(x.rows, inner), xbc = ws_.q.rows(x.rows, m.conv_width()),
             dt = ws_.beta.rows(x.rows, m.n_heads), mixed = ws_.attended.rows(x.rows, inner);

  const compute::Product products[] = {{&w.z, nullptr, z}, {&w.xbc, nullptr, xbc}, {&w.dt, nullptr, dt}};
  backend.multiply(x, products);
  backend.causal_conv(xbc, states(layer, batch, at.conv), {m.conv_kernel, w.conv, w.conv_bias, true}, xbc);
  const compute::Mamba2Inputs inputs{Columns(xbc, 0, inner), Columns(xbc, inner, group),
                                     Columns(xbc, inner + group, group), dt};
  backend.mamba2(inputs, states(layer, batch, at.matrix),
                 {m.n_heads, m.head_dim, m.n_groups, m.state_dim, w.rate, w.step_bias, w.skip, m.min_step, m.max_step},
                 mixed);
  backend.gated_norm(mixed, z,
                     {compute::GatedNorm::kSiluThenNorm, inner / m.norm_groups, w.norm, parts_.spec->norm_eps}, mixed);
  backend.matmul(mixed, w.output, nullptr, out);
}

// out = output(after * conv(before * x))
void Decoder::short_conv(int layer, const Batch& batch, Rows x, Rows out) {
  compute::Backend& backend = *parts_.backend;
  const ShortConvWeights& w = layer_weights(layer).conv;
  const Rows before = ws_.q.rows(x.rows, x.width), after = ws_.k.rows(x.rows, x.width), y = ws_.v.rows(x.rows, x.width);
  const compute::Product products[] = {{&w.before, nullptr, before}, {&w.after, nullptr, after}, {&w.x, nullptr, y}};
  backend.multiply(x, products);
  backend.multiply_elements(y, before);
  backend.causal_conv(y, states(layer, batch, 0), {parts_.spec->conv.kernel, w.conv, w.conv_bias, false}, y);
  backend.multiply_elements(y, after);
  backend.matmul(y, w.output, nullptr, out);
}

}  // namespace colibri::model
