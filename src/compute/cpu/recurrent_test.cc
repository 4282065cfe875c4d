// The recurrent mixers: near a plain computation in double, and equal bit by bit on every level, with any number of
// threads, however the rows of two sequences are cut into calls.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "compute/cpu/isa.h"
#include "compute/cpu/random_data.h"

namespace colibri::compute {
namespace {

using Doubles = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double softplus(double x) { return std::log1p(std::exp(x)); }

struct Machine {
  std::string isa;
  int threads;
  std::unique_ptr<Backend> backend;
};

/// Every available level with 1 and 3 threads; scalar last.
const std::vector<Machine>& machines() {
  static const auto* all = [] {
    auto* list = new std::vector<Machine>;
    for (const Isa& isa : all_isas()) {
      for (int threads : {3, 1}) {
        BackendOptions options;
        options.isa = isa.name;
        options.threads = threads;
        if (is_available(isa)) list->push_back({isa.name, threads, create_cpu_backend(options).value()});
      }
    }
    return list;
  }();
  return *all;
}
Backend& scalar() { return *machines().back().backend; }

constexpr int64_t kMargin = 3;  ///< columns on either side that belong to others
constexpr float kForeign = 77.0f;

/// Columns within wider rows, whose margins nobody may change.
struct Framed {
  Block block;

  Framed(int64_t rows, int64_t width) : block(rows, width + 2 * kMargin) {
    std::fill(block.values.begin(), block.values.end(), kForeign);
  }
  Columns columns() { return {block.rows(), kMargin, block.width - 2 * kMargin}; }
  void expect_margins() {
    const Columns c = columns();
    for (int64_t r = 0; r < c.rows; ++r)
      for (int64_t i = 0; i < kMargin; ++i)
        ASSERT_TRUE(c.row(r)[-1 - i] == kForeign && c.row(r)[c.width + i] == kForeign);
  }
};
Framed framed(Block& from) {
  Framed f(from.rows().rows, from.width);
  for (int64_t r = 0; r < from.rows().rows; ++r) std::copy_n(from.rows().row(r), from.width, f.columns().row(r));
  return f;
}

/// Runs run(backend, framed inputs, out) on every machine. All must equal scalar, which is near expected(r, c).
void expect_rows(std::vector<Block> inputs, int64_t width,
                 const std::function<void(Backend&, const std::vector<Columns>&, Columns)>& run,
                 const std::function<double(int64_t, int64_t)>& expected) {
  const int64_t rows = inputs.front().rows().rows;
  const auto result = [&](Backend& backend) {
    std::vector<Framed> frames;
    for (Block& b : inputs) frames.push_back(framed(b));
    std::vector<Columns> columns;
    for (Framed& f : frames) columns.push_back(f.columns());
    Framed out(rows, width);
    run(backend, columns, out.columns());
    out.expect_margins();
    return out;
  };
  Framed plain = result(scalar());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < width; ++c) {
      const double want = expected(r, c);
      ASSERT_NEAR(plain.columns().row(r)[c], want, 3e-6 * (0.1 + std::fabs(want))) << r << ", " << c;
    }
  for (const Machine& m : machines()) ASSERT_EQ(result(*m.backend).block, plain.block) << m.isa;
}

double at(Block& b, int64_t r, int64_t c) { return static_cast<double>(b.rows().row(r)[c]); }
double at(const std::vector<float>& v, int64_t i) { return static_cast<double>(v[static_cast<size_t>(i)]); }

TEST(Recurrent, GatesAreElementwise) {
  Random random(1);
  for (int64_t width : {1, 16, 67}) {
    Block a = random_block(random, 5, width, 20.0f), b = random_block(random, 5, width);
    expect_rows(
        {a, b}, width, [](Backend& backend, const auto& in, Columns out) { backend.mul(in[0], in[1], out); },
        [&](int64_t r, int64_t c) { return at(a, r, c) * at(b, r, c); });
    expect_rows(
        {a}, width, [](Backend& backend, const auto& in, Columns out) { backend.sigmoid(in[0], out); },
        [&](int64_t r, int64_t c) { return sigmoid(at(a, r, c)); });
  }
}

TEST(Recurrent, L2NormDividesEachHeadByItsLength) {
  Random random(2);
  for (int64_t dim : {1, 16, 37}) {
    Block x = random_block(random, 4, 3 * dim, 0.01f);
    const auto length = [&](int64_t r, int64_t head) {
      double sum = 1e-6;
      for (int64_t i = 0; i < dim; ++i) sum += at(x, r, head * dim + i) * at(x, r, head * dim + i);
      return std::sqrt(sum);
    };
    expect_rows(
        {x}, 3 * dim, [&](Backend& backend, const auto& in, Columns out) { backend.l2_norm(in[0], dim, 0.25f, out); },
        [&](int64_t r, int64_t c) { return 0.25 * at(x, r, c) / length(r, c / dim); });
  }
}

TEST(Recurrent, DecayOfHeadsAndChannelsInBothForms) {
  Random random(3);
  constexpr int64_t kHeads = 5;
  for (int64_t channels : {1, 20}) {
    for (float bound : {0.0f, -5.0f}) {
      Block x = random_block(random, 6, kHeads * channels, 30.0f), bias = random_block(random, 1, kHeads * channels);
      Block a = random_block(random, 1, kHeads);
      for (float& v : a.values) v = -0.001f - v * v;
      const DecayParams params{a.values.data(), bias.values.data(), channels, bound};
      expect_rows(
          {x}, x.width, [&](Backend& backend, const auto& in, Columns out) { backend.decay(in[0], params, out); },
          [&](int64_t r, int64_t c) {
            const double at_head = at(a.values, c / channels), shifted = at(x, r, c) + at(bias.values, c);
            return std::exp(bound < 0 ? static_cast<double>(bound) * sigmoid(-at_head * shifted)
                                      : at_head * softplus(shifted));
          });
    }
  }
}

TEST(Recurrent, GatedNormsOfEachForm) {
  Random random(4);
  constexpr int64_t kGroups = 3;
  for (int64_t group : {1, 16, 45}) {
    for (GatedNorm form : {GatedNorm::kNormThenSilu, GatedNorm::kNormThenSigmoid, GatedNorm::kSiluThenNorm}) {
      Block x = random_block(random, 4, kGroups * group, 2.0f), gate = random_block(random, 4, kGroups * group, 6.0f);
      const bool after = form == GatedNorm::kSiluThenNorm;
      Block weight = random_block(random, 1, after ? x.width : group);
      const auto seen = [&](int64_t r, int64_t c) { return at(x, r, c) * (after ? silu(at(gate, r, c)) : 1.0); };
      const auto act = [&](double z) { return after ? 1.0 : form == GatedNorm::kNormThenSilu ? silu(z) : sigmoid(z); };
      const GatedNormParams params{form, group, weight.values.data(), 1e-3f};
      expect_rows(
          {x, gate}, x.width,
          [&](Backend& backend, const auto& in, Columns out) { backend.gated_norm(in[0], in[1], params, out); },
          [&](int64_t r, int64_t c) {
            double squares = 0;
            for (int64_t i = c / group * group; i < (c / group + 1) * group; ++i) squares += seen(r, i) * seen(r, i);
            const double inverse = 1 / std::sqrt(squares / static_cast<double>(group) + 1e-3);
            return at(weight.values, after ? c : c % group) * seen(r, c) * inverse * act(at(gate, r, c));
          });
    }
  }
}

/// Two sequences for an operation with state. The rows of the second follow those of the first.
struct Problem {
  int64_t rows[2];
  std::vector<Block> inputs;
  int64_t width = 0, state_floats = 0;
  std::function<void(Backend&, const std::vector<Columns>& in, std::span<const RecurrentSegment>, Columns out)> run;
  /// Outputs of one sequence, in double, from its first row in inputs and their number.
  std::function<Doubles(int64_t first, int64_t rows)> expected;
};

struct Outcome {
  Block out, states;
  explicit Outcome(const Problem& p) : out(p.rows[0] + p.rows[1], p.width), states(2, p.state_floats) {}
  bool operator==(const Outcome& other) const { return out == other.out && states == other.states; }
};

/// One call with rows done[s] to done[s] + count[s] of both sequences and a row of neither between them.
void call(Backend& backend, Problem& p, const int64_t done[2], const int64_t count[2], Outcome& outcome) {
  const int64_t starts[2] = {0, count[0] + 1}, origins[2] = {done[0], p.rows[0] + done[1]};
  const int64_t rows = count[0] + 1 + count[1];
  std::vector<Framed> frames;
  for (Block& from : p.inputs) {
    Framed& f = frames.emplace_back(rows, from.width);
    for (int s = 0; s < 2; ++s)
      for (int64_t r = 0; r < count[s]; ++r)
        std::copy_n(from.rows().row(origins[s] + r), from.width, f.columns().row(starts[s] + r));
  }
  std::vector<Columns> in;
  for (Framed& f : frames) in.push_back(f.columns());
  Framed out(rows, p.width);
  const RecurrentSegment segments[] = {{outcome.states.rows().row(0), starts[0], count[0]},
                                       {outcome.states.rows().row(1), starts[1], count[1]}};
  p.run(backend, in, segments, out.columns());
  out.expect_margins();
  ASSERT_EQ(out.columns().row(count[0])[0], kForeign) << "a row of no sequence was written";
  for (int s = 0; s < 2; ++s)
    for (int64_t r = 0; r < count[s]; ++r)
      std::copy_n(out.columns().row(starts[s] + r), p.width, outcome.out.rows().row(origins[s] + r));
}

Outcome sequence_by_sequence(Backend& backend, Problem& p) {
  Outcome outcome(p);
  const int64_t first[2][2] = {{0, 0}, {p.rows[0], 0}}, count[2][2] = {{p.rows[0], 0}, {0, p.rows[1]}};
  for (int s = 0; s < 2; ++s) call(backend, p, first[s], count[s], outcome);
  return outcome;
}

Outcome in_random_calls(Random& random, Backend& backend, Problem& p) {
  Outcome outcome(p);
  for (int64_t done[2] = {0, 0}; done[0] < p.rows[0] || done[1] < p.rows[1];) {
    int64_t count[2];
    for (int s = 0; s < 2; ++s) count[s] = random.below(p.rows[s] - done[s] + 1);
    call(backend, p, done, count, outcome);
    for (int s = 0; s < 2; ++s) done[s] += count[s];
  }
  return outcome;
}

void expect_recurrence(Random& random, Problem p) {
  Outcome plain = sequence_by_sequence(scalar(), p);
  Doubles expected = p.expected(0, p.rows[0]);
  const Doubles second = p.expected(p.rows[0], p.rows[1]);
  expected.insert(expected.end(), second.begin(), second.end());
  ASSERT_EQ(expected.size(), plain.out.values.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(plain.out.values[i], expected[i], 1e-5 * (1 + std::fabs(expected[i]))) << i;
  for (const Machine& m : machines())
    ASSERT_EQ(in_random_calls(random, *m.backend, p), plain) << m.isa << " with " << m.threads << " threads";
}

TEST(Recurrent, ConvolutionOfEveryKernelWidthFromAnyRowOn) {
  Random random(5);
  for (int kernel = 2; kernel <= kMaxConvKernel; ++kernel) {
    const int64_t channels = 1 + random.below(150);
    Block weight = random_block(random, kernel, channels), bias = random_block(random, 1, channels);
    const bool biased = kernel % 2 == 0, activated = kernel % 3 != 0;
    const ConvParams params{kernel, weight.values.data(), biased ? bias.values.data() : nullptr, activated};
    Problem p;
    p.rows[0] = 1 + random.below(14);
    p.rows[1] = 1 + random.below(14);
    p.inputs = {random_block(random, p.rows[0] + p.rows[1], channels)};
    p.width = channels;
    p.state_floats = conv_state_floats(kernel, channels);
    p.run = [&](Backend& backend, const auto& in, auto segments, Columns out) {
      backend.causal_conv(in[0], segments, params, out);
    };
    p.expected = [&](int64_t first, int64_t rows) {
      Doubles y;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < channels; ++c) {
          double sum = biased ? at(bias.values, c) : 0;
          for (int64_t j = 0; j < kernel; ++j) {
            const int64_t from = r - (kernel - 1) + j;
            if (from >= 0) sum += at(weight, j, c) * at(p.inputs[0], first + from, c);
          }
          y.push_back(activated ? silu(sum) : sum);
        }
      return y;
    };
    expect_recurrence(random, p);
  }
}

/// The gated delta rule of one value head, as the papers write it.
Doubles delta_rule_of_head(Problem& p, const DeltaRuleParams& d, int64_t head, int64_t first, int64_t rows) {
  const int64_t key_head = d.tiled ? head % d.n_key_heads : head * d.n_key_heads / d.n_value_heads;
  std::vector<Doubles> state(static_cast<size_t>(d.key_dim), Doubles(static_cast<size_t>(d.value_dim)));
  Doubles out;
  for (int64_t r = first; r < first + rows; ++r) {
    const auto q = [&](int64_t i) { return at(p.inputs[0], r, key_head * d.key_dim + i); };
    const auto k = [&](int64_t i) { return at(p.inputs[1], r, key_head * d.key_dim + i); };
    for (int64_t i = 0; i < d.key_dim; ++i)
      for (double& s : state[static_cast<size_t>(i)])
        s *= at(p.inputs[3], r, d.channel_decay ? head * d.key_dim + i : head);
    for (size_t c = 0; c < static_cast<size_t>(d.value_dim); ++c) {
      double known = 0, y = 0;
      for (int64_t i = 0; i < d.key_dim; ++i) known += state[static_cast<size_t>(i)][c] * k(i);
      const double value = at(p.inputs[2], r, head * d.value_dim + static_cast<int64_t>(c));
      const double delta = at(p.inputs[4], r, head) * (value - known);
      for (int64_t i = 0; i < d.key_dim; ++i) {
        state[static_cast<size_t>(i)][c] += k(i) * delta;
        y += state[static_cast<size_t>(i)][c] * q(i);
      }
      out.push_back(y);
    }
  }
  return out;
}

/// Heads' outputs [rows, channels] side by side.
Doubles side_by_side(const std::vector<Doubles>& heads, int64_t rows, int64_t channels) {
  Doubles all;
  for (int64_t r = 0; r < rows; ++r)
    for (const Doubles& head : heads)
      all.insert(all.end(), head.begin() + r * channels, head.begin() + (r + 1) * channels);
  return all;
}

/// Keys of length 1, as l2_norm makes them; decay and beta in [0, 1).
Problem delta_rule_problem(Random& random, const DeltaRuleParams& d) {
  Problem p;
  p.rows[0] = 1 + random.below(9);
  p.rows[1] = 1 + random.below(9);
  const int64_t rows = p.rows[0] + p.rows[1];
  const int64_t widths[] = {d.n_key_heads * d.key_dim, d.n_key_heads * d.key_dim, d.n_value_heads * d.value_dim,
                            d.n_value_heads * (d.channel_decay ? d.key_dim : 1), d.n_value_heads};
  for (int64_t width : widths) p.inputs.push_back(random_block(random, rows, width));
  for (Block* b : {&p.inputs[0], &p.inputs[1]}) scalar().l2_norm(b->rows(), d.key_dim, 1.0f, b->rows());
  for (Block* b : {&p.inputs[3], &p.inputs[4]})
    for (float& v : b->values) v = std::fabs(v);
  p.width = widths[2];
  p.state_floats = d.state_floats();
  return p;
}

TEST(Recurrent, DeltaRuleOfGroupedTiledAndPerChannelDecayedHeads) {
  Random random(6);
  for (int trial = 0; trial < 10; trial += COLIBRI_TEST_STEP) {
    const int64_t key_heads = 1 + random.below(3), group = 1 + random.below(3);
    const DeltaRuleParams d{key_heads,      key_heads * group, 1 + random.below(50), 1 + random.below(150),
                            trial % 2 == 1, trial % 3 == 0};
    Problem p = delta_rule_problem(random, d);
    p.run = [&](Backend& backend, const auto& in, auto segments, Columns out) {
      backend.delta_rule({in[0], in[1], in[2], in[3], in[4]}, segments, d, out);
    };
    p.expected = [&](int64_t first, int64_t rows) {
      std::vector<Doubles> heads;
      for (int64_t h = 0; h < d.n_value_heads; ++h) heads.push_back(delta_rule_of_head(p, d, h, first, rows));
      return side_by_side(heads, rows, d.value_dim);
    };
    expect_recurrence(random, p);
  }
}

Doubles mamba2_of_head(Problem& p, const Mamba2Params& m, int64_t head, int64_t first, int64_t rows) {
  const int64_t group = head * m.n_groups / m.n_heads;
  Doubles state(static_cast<size_t>(m.head_dim * m.state_size)), out;
  for (int64_t r = first; r < first + rows; ++r) {
    const double raw = softplus(at(p.inputs[3], r, head) + static_cast<double>(m.dt_bias[head]));
    const double dt = std::clamp(raw, static_cast<double>(m.dt_min), static_cast<double>(m.dt_max));
    for (int64_t c = 0; c < m.head_dim; ++c) {
      const double x = at(p.inputs[0], r, head * m.head_dim + c);
      double y = static_cast<double>(m.d[head]) * x;
      for (int64_t i = 0; i < m.state_size; ++i) {
        double& s = state[static_cast<size_t>(c * m.state_size + i)];
        s = s * std::exp(dt * static_cast<double>(m.a[head])) + dt * x * at(p.inputs[1], r, group * m.state_size + i);
        y += s * at(p.inputs[2], r, group * m.state_size + i);
      }
      out.push_back(y);
    }
  }
  return out;
}

TEST(Recurrent, Mamba2ScanOfGroupedHeadsWithLimitedTimeSteps) {
  Random random(7);
  for (int trial = 0; trial < 10; trial += COLIBRI_TEST_STEP) {
    Mamba2Params m;
    m.n_groups = 1 + random.below(3);
    m.n_heads = m.n_groups * (1 + random.below(3));
    m.head_dim = 1 + random.below(100);
    m.state_size = 1 + random.below(70);
    Block a = random_block(random, 1, m.n_heads), bias = random_block(random, 1, m.n_heads, 3.0f),
          d = random_block(random, 1, m.n_heads);
    for (float& v : a.values) v = -4.0f * std::fabs(v);
    m.a = a.values.data();
    m.dt_bias = bias.values.data();
    m.d = d.values.data();
    if (trial % 2 == 0) m.dt_min = 0.1f;
    if (trial % 4 == 0) m.dt_max = 2.0f;
    Problem p;
    p.rows[0] = 1 + random.below(9);
    p.rows[1] = 1 + random.below(9);
    for (int64_t width : {m.n_heads * m.head_dim, m.n_groups * m.state_size, m.n_groups * m.state_size, m.n_heads})
      p.inputs.push_back(random_block(random, p.rows[0] + p.rows[1], width));
    p.width = m.n_heads * m.head_dim;
    p.state_floats = m.state_floats();
    p.run = [&](Backend& backend, const auto& in, auto segments, Columns out) {
      backend.mamba2({in[0], in[1], in[2], in[3]}, segments, m, out);
    };
    p.expected = [&](int64_t first, int64_t rows) {
      std::vector<Doubles> heads;
      for (int64_t h = 0; h < m.n_heads; ++h) heads.push_back(mamba2_of_head(p, m, h, first, rows));
      return side_by_side(heads, rows, m.head_dim);
    };
    expect_recurrence(random, p);
  }
}

}  // namespace
}  // namespace colibri::compute
