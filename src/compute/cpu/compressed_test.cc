// Several residual streams and the pooling of rows into compressed keys: near plain computations in double, and equal
// bit by bit on every level, with any number of threads, for rows in any company and in calls of any size.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/cpu/isa.h"
#include "compute/cpu/test_data.h"

namespace colibri::compute {
namespace {

using Doubles = std::vector<double>;

/// Every level with kernels of its own, with 1 and 3 threads; scalar with 1 first.
const std::vector<std::unique_ptr<Backend>>& machines() {
  static const auto* all = [] {
    auto* list = new std::vector<std::unique_ptr<Backend>>;
    list->push_back(test_backend("scalar"));
    for (const Isa& isa : all_isas())
      for (int threads : {1, 3})
        if (isa.own_kernels && is_available(isa)) list->push_back(test_backend(isa.name, threads));
    return list;
  }();
  return *all;
}

double wide(float x) { return static_cast<double>(x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Streams {
  int64_t rows, width;
  StreamParams params;
  Block logits, scale, base, x, y;

  int64_t n() const { return params.n; }
};

Streams random_streams(Random& random, int n) {
  Streams s;
  s.rows = 1 + random.below(40);
  s.width = 1 + random.below(100);
  s.params.n = n;
  s.params.iterations = static_cast<int>(1 + random.below(20));
  s.params.eps = 1e-6f;
  s.logits = random_block(random, s.rows, int64_t{2 + n} * n, 4.0f);
  s.scale = random_block(random, 1, 3, 2.0f);
  s.base = random_block(random, 1, s.logits.width, 2.0f);
  s.params.scale = s.scale.values.data();
  s.params.base = s.base.values.data();
  s.x = random_block(random, s.rows, n * s.width);
  s.y = random_block(random, s.rows, s.width);
  return s;
}

/// The n x n weights of a row, from the definition.
Doubles mixed_plainly(Streams& s, int64_t row) {
  const int64_t n = s.n();
  const double eps = wide(s.params.eps);
  Doubles m(static_cast<size_t>(n * n));
  const auto at = [&](int64_t j, int64_t k) -> double& { return m[static_cast<size_t>(j * n + k)]; };
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = 2 * n + j * n + k;
      sum += at(j, k) = std::exp(wide(s.logits.rows().row(row)[i]) * wide(s.params.scale[2]) + wide(s.params.base[i]));
    }
    for (int64_t k = 0; k < n; ++k) at(j, k) = at(j, k) / sum + eps;
  }
  for (int step = 1; step < 2 * s.params.iterations; ++step) {  // columns, then rows and columns in turn
    const bool columns = step % 2 == 1;
    for (int64_t a = 0; a < n; ++a) {
      double sum = eps;
      for (int64_t b = 0; b < n; ++b) sum += columns ? at(b, a) : at(a, b);
      for (int64_t b = 0; b < n; ++b) (columns ? at(b, a) : at(a, b)) /= sum;
    }
  }
  return m;
}

TEST(Streams, WeightsFollowTheirFormulasAndAreTheSameEverywhere) {
  Random random(41);
  for (int n = 1; n <= kMaxStreams; ++n) {
    Streams s = random_streams(random, n);
    Block expected = s.logits;
    machines()[0]->stream_weights(expected.rows(), s.params);
    for (int64_t r = 0; r < s.rows; ++r) {
      const float *logits = s.logits.rows().row(r), *got = expected.rows().row(r);
      for (int i = 0; i < 2 * n; ++i) {
        const double gate = sigmoid(wide(logits[i]) * wide(s.params.scale[i / n]) + wide(s.params.base[i]));
        ASSERT_NEAR(got[i], i < n ? gate + 1e-6 : 2 * gate, 1e-6);
      }
      const Doubles mixed = mixed_plainly(s, r);
      for (size_t i = 0; i < mixed.size(); ++i) ASSERT_NEAR(got[2 * n + static_cast<int>(i)], mixed[i], 2e-6) << n;
    }
    for (const auto& machine : machines()) {
      Block all = s.logits, read(s.rows, n);
      for (int64_t r = 0; r < s.rows; ++r) std::copy_n(s.logits.rows().row(r), n, read.rows().row(r));
      machine->stream_weights(all.rows(), s.params);
      machine->stream_weights(read.rows(), s.params);
      ASSERT_EQ(all, expected) << machine->isa();
      for (int64_t r = 0; r < s.rows; ++r)
        ASSERT_TRUE(std::equal(read.rows().row(r), read.rows().row(r) + n, expected.rows().row(r))) << machine->isa();
    }
  }
}

TEST(Streams, CollapseAndExpandAreChainsOverTheStreamsEverywhere) {
  Random random(42);
  for (int n = 1; n <= kMaxStreams; ++n) {
    Streams s = random_streams(random, n);
    Block collapsed(s.rows, s.width), expanded(s.rows, n * s.width);
    for (int64_t r = 0; r < s.rows; ++r) {
      const float *w = s.logits.rows().row(r), *x = s.x.rows().row(r);
      for (int64_t i = 0; i < s.width; ++i) {
        float sum = 0;
        for (int64_t j = 0; j < n; ++j) sum = std::fmaf(w[j], x[j * s.width + i], sum);
        collapsed.rows().row(r)[i] = sum;
        for (int64_t k = 0; k < n; ++k) {
          sum = w[n + k] * s.y.rows().row(r)[i];
          for (int64_t j = 0; j < n; ++j) sum = std::fmaf(w[2 * n + j * n + k], x[j * s.width + i], sum);
          expanded.rows().row(r)[k * s.width + i] = sum;
        }
      }
    }
    for (const auto& machine : machines()) {
      Block one(s.rows, s.width), x = s.x;
      machine->collapse_streams(x.rows(), s.logits.rows(), one.rows());
      ASSERT_EQ(one, collapsed) << machine->isa();
      machine->expand_streams(x.rows(), s.logits.rows(), s.y.rows());
      ASSERT_EQ(x, expanded) << machine->isa();
    }
  }
}

/// Two sequences whose rows are pooled.
struct Pooling {
  CompressParams params;
  int64_t rows[2];
  Block kv[2], gate[2], bias;

  int64_t entries(int s) const { return rows[s] / params.rate; }
};

Pooling random_pooling(Random& random, bool overlap) {
  Pooling p;
  p.params.rate = 1 + random.below(20);
  p.params.overlap = overlap;
  p.params.channels = 1 + random.below(150);
  p.bias = random_block(random, p.params.rate, p.params.row_width(), 2.0f);
  p.params.bias = p.bias.values.data();
  for (int s = 0; s < 2; ++s) {
    p.rows[s] = 1 + random.below(70);
    p.kv[s] = random_block(random, p.rows[s], p.params.row_width());
    p.gate[s] = random_block(random, p.rows[s], p.params.row_width(), 5.0f);
  }
  return p;
}

double pool_plainly(Pooling& p, int s, int64_t entry, int64_t channel) {
  const int64_t rate = p.params.rate, first = p.params.overlap ? std::max<int64_t>(0, entry - 1) * rate : entry * rate;
  double sum = 0, pooled = 0;
  for (int64_t r = first; r < (entry + 1) * rate; ++r) {
    const int64_t c = p.params.overlap && r >= entry * rate ? p.params.channels + channel : channel;
    const double weight = std::exp(wide(p.gate[s].rows().row(r)[c]) + wide(p.bias.rows().row(r % rate)[c]));
    sum += weight;
    pooled += weight * wide(p.kv[s].rows().row(r)[c]);
  }
  return pooled / sum;
}

struct Pooled {
  Block entries[2];
  std::vector<float> states[2];

  explicit Pooled(const Pooling& p) {
    for (int s = 0; s < 2; ++s) {
      entries[s] = Block(p.entries(s), p.params.channels);
      states[s].resize(static_cast<size_t>(p.params.state_floats()));
    }
  }
  bool operator==(const Pooled& o) const { return entries[0] == o.entries[0] && entries[1] == o.entries[1]; }
};

/// The rows done[s] .. done[s] + count[s] of both sequences, in one call; a row of neither lies between them.
void pool_some(Backend& backend, Pooling& p, const int64_t done[2], const int64_t count[2], Pooled& result) {
  const int64_t width = p.params.row_width();
  Block kv(count[0] + 1 + count[1], width), gate = kv, out(count[0] + count[1] + 1, p.params.channels);
  CompressSegment segments[2];
  for (int s = 0; s < 2; ++s) {
    const int64_t entry = s == 0 ? 0 : segments[0].n_entries(p.params.rate);
    segments[s] = {result.states[s].data(), s == 0 ? 0 : count[0] + 1, count[s], done[s], entry};
    std::copy_n(p.kv[s].values.data() + done[s] * width, count[s] * width, kv.rows().row(segments[s].first_row));
    std::copy_n(p.gate[s].values.data() + done[s] * width, count[s] * width, gate.rows().row(segments[s].first_row));
  }
  backend.compress(kv.rows(), gate.rows(), segments, p.params, out.rows());
  for (int s = 0; s < 2; ++s)
    std::copy_n(out.rows().row(segments[s].first_entry), segments[s].n_entries(p.params.rate) * out.width,
                result.entries[s].values.data() + done[s] / p.params.rate * out.width);
}

Pooled pool_in_random_calls(Random& random, Backend& backend, Pooling& p) {
  Pooled result(p);
  for (int64_t done[2] = {0, 0}; done[0] < p.rows[0] || done[1] < p.rows[1];) {
    int64_t count[2];
    for (int s = 0; s < 2; ++s) count[s] = random.below(p.rows[s] - done[s] + 1);
    pool_some(backend, p, done, count, result);
    for (int s = 0; s < 2; ++s) done[s] += count[s];
  }
  return result;
}

TEST(Compress, PoolsEachRunWithAndWithoutTheOneBeforeFromAnyRowOn) {
  Random random(43);
  for (int trial = 0; trial < 12; trial += COLIBRI_TEST_STEP) {
    Pooling p = random_pooling(random, trial % 2 == 0);
    Pooled expected(p);
    const int64_t none[2] = {0, 0};
    pool_some(*machines()[0], p, none, p.rows, expected);
    for (int s = 0; s < 2; ++s)
      for (int64_t e = 0; e < p.entries(s); ++e)
        for (int64_t c = 0; c < p.params.channels; ++c)
          ASSERT_NEAR(expected.entries[s].rows().row(e)[c], pool_plainly(p, s, e, c), 2e-6) << e << ", " << c;
    for (const auto& machine : machines())
      ASSERT_TRUE(pool_in_random_calls(random, *machine, p) == expected)
          << machine->isa() << ", " << machine->threads() << " threads, rate " << p.params.rate << ", trial " << trial;
  }
}

}  // namespace
}  // namespace colibri::compute
