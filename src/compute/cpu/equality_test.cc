// The promise of backend.h: results are equal bit by bit on every level, with any number of threads, however the rows
// are split into calls. Each trial draws a problem and runs it on scalar whole, then on everything else.
#include <gtest/gtest.h>

#include "compute/cpu/isa.h"
#include "compute/cpu/test_data.h"

namespace colibri::compute {
namespace {

struct Machine {
  std::string isa;
  int threads;
  std::unique_ptr<Backend> backend;
};

/// Every level that has kernels of its own, with 1, 2 and 3 threads.
const std::vector<Machine>& machines() {
  static const auto* all = [] {
    auto* list = new std::vector<Machine>;
    for (const Isa& isa : all_isas())
      for (int threads = 1; isa.own_kernels && is_available(isa) && threads <= 3; ++threads)
        list->push_back({isa.name, threads, test_backend(isa.name, threads)});
    return list;
  }();
  return *all;
}

/// Calls run(first, count) for a random partition of the rows.
template <typename Run>
void split_rows(Random& random, int64_t rows, const Run& run) {
  for (int64_t first = 0; first < rows;) {
    const int64_t count = 1 + random.below(rows - first);
    run(first, count);
    first += count;
  }
}

/// Runs on scalar whole, then on every machine whole or in parts, as chance will have it.
/// run(backend, first, count, out) fills those rows of out.
template <typename Run>
void expect_equal_everywhere(Random& random, int64_t rows, int64_t width, const Run& run) {
  Block expected(rows, width);
  run(*machines().back().backend, 0, rows, expected.rows());
  for (const Machine& m : machines()) {
    Block got(rows, width);
    const bool whole = random.below(2) == 0;
    if (whole) {
      run(*m.backend, 0, rows, got.rows());
    } else {
      split_rows(random, rows,
                 [&](int64_t first, int64_t n) { run(*m.backend, first, n, got.rows().slice(first, n)); });
    }
    ASSERT_EQ(got, expected) << m.isa << " with " << m.threads << " threads, " << rows << " rows"
                             << (whole ? "" : " in parts");
  }
}

TEST(Equality, MatmulOfEveryEncoding) {
  Random random(1);
  for (Encoding encoding : kEncodings) {
    for (int64_t rows = 1; rows <= 40; ++rows) {
      const int64_t n = 1 + random.below(150);
      const int64_t k = encoding == Encoding::kQ8_0 ? 32 * (1 + random.below(5)) : 1 + random.below(170);
      const Weights w = random_weights(random, encoding, n, k);
      Block x = random_block(random, rows, k), bias = random_block(random, 1, n);
      const float* b = rows % 2 == 0 ? bias.values.data() : nullptr;
      expect_equal_everywhere(random, rows, n, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
        backend.matmul(x.rows().slice(first, count), w.packed, b, out);
      });
    }
  }
}

TEST(Equality, MatmulOfSubnormalAndHugeNumbers) {
  Random random(2);
  for (int trial = 0; trial < 10; ++trial) {
    const int64_t rows = 1 + random.below(15), n = 33, k = 40;
    Weights w = random_weights(random, Encoding::kF32, n, k);
    Block x = random_block(random, rows, k);
    for (float& v : x.values) v *= random.below(2) == 0 ? 0x1p-140f : 0x1p-20f;
    auto* panels = reinterpret_cast<float*>(w.lines.data());
    for (size_t i = 0; i < w.lines.size() * 16; ++i) panels[i] *= random.below(2) == 0 ? 0x1p-10f : 0x1p100f;
    expect_equal_everywhere(random, rows, n, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      backend.matmul(x.rows().slice(first, count), w.packed, nullptr, out);
    });
  }
}

TEST(Equality, OperationsOnRows) {
  Random random(3);
  for (int trial = 0; trial < 25; ++trial) {
    const int64_t rows = 1 + random.below(40), n = 1 + random.below(300);
    Block x = random_block(random, rows, n, 20.0f), y = random_block(random, rows, n),
          gate = random_block(random, rows, 1, 9.0f);
    expect_equal_everywhere(random, rows, n, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      backend.silu_mul(x.rows().slice(first, count), y.rows().slice(first, count), out);
      backend.add(out, x.rows().slice(first, count));
      backend.scale_by_sigmoid(out, gate.rows().slice(first, count));
      backend.rms_norm(out, y.values.data(), 1e-6f, out);
      backend.clamp(out, 0.9f);
    });
  }
}

TEST(Equality, Rope) {
  Random random(4);
  for (int trial = 0; trial < 20; ++trial) {
    const int64_t rows = 1 + random.below(40), heads = 1 + random.below(5);
    const int head_dim = 2 * static_cast<int>(1 + random.below(40)),
              rotary = 2 * static_cast<int>(1 + random.below(head_dim / 2));
    Block x = random_block(random, rows, heads * head_dim);
    Block cosines = random_block(random, rows, rotary / 2), sines = random_block(random, rows, rotary / 2);
    const RopeTable table{trial % 2 == 0, rotary, cosines.values.data(), sines.values.data()};
    std::vector<int32_t> positions;
    for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>(random.below(rows)));
    expect_equal_everywhere(random, rows, x.width, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      std::copy_n(x.rows().row(first), count * x.width, out.data);
      backend.rope(out, head_dim, std::span(positions).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                   table);
    });
  }
}

// A chunk of a prompt sees the keys before it and its own, so a split call appends and attends chunk by chunk.
TEST(Equality, AttentionInChunksOfAnySize) {
  Random random(5);
  for (int trial = 0; trial < 12; ++trial) {
    const int kv_heads = 1 + static_cast<int>(random.below(3)), group = 1 + static_cast<int>(random.below(5));
    const int heads = kv_heads * group, head_dim = 1 + static_cast<int>(random.below(80));
    const int64_t before = trial % 3 == 0 ? 0 : random.below(140), rows = 1 + random.below(90);
    Block q = random_block(random, rows, heads * head_dim, 3.0f);
    Block keys = random_block(random, before + rows, kv_heads * head_dim, 3.0f);
    Block values = random_block(random, before + rows, kv_heads * head_dim);
    Cache cache(kv_heads, head_dim, 240);
    const auto append = [&](Backend& backend, int64_t first, int64_t count) {
      const AttentionSegment s{cache.view, 0, count, first};
      backend.kv_append(keys.rows().slice(first, count), values.rows().slice(first, count), {&s, 1});
    };
    expect_equal_everywhere(random, rows, q.width, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      if (first == 0) {
        std::fill(cache.values.begin(), cache.values.end(), __builtin_nanf(""));
        std::fill(cache.keys.begin(), cache.keys.end(), __builtin_nanf(""));
        if (before > 0) append(backend, 0, before);
      }
      append(backend, before + first, count);
      const AttentionSegment s{cache.view, 0, count, before + first};
      backend.attention(q.rows().slice(first, count), {&s, 1}, {heads, 0.4f}, out);
    });
  }
}

TEST(Equality, SequencesDoNotFeelEachOther) {
  Random random(6);
  const int kv_heads = 2, heads = 4, head_dim = 24;
  Block q = random_block(random, 23, heads * head_dim);
  std::vector<std::unique_ptr<Cache>> caches;
  std::vector<AttentionSegment> segments;
  int64_t row = 0;
  for (int64_t rows : {1, 20, 2}) {
    const int64_t before = random.below(100);
    Block kv = random_block(random, before + rows, kv_heads * head_dim);
    caches.push_back(std::make_unique<Cache>(kv_heads, head_dim, 128));
    const AttentionSegment all{caches.back()->view, 0, before + rows, 0};
    machines().front().backend->kv_append(kv.rows(), kv.rows(), {&all, 1});
    segments.push_back({caches.back()->view, row, rows, before});
    row += rows;
  }
  for (const Machine& m : machines()) {
    Block together(23, q.width), alone(23, q.width);
    m.backend->attention(q.rows(), segments, {heads, 0.2f}, together.rows());
    for (const AttentionSegment& s : segments) m.backend->attention(q.rows(), {&s, 1}, {heads, 0.2f}, alone.rows());
    ASSERT_EQ(together, alone) << m.isa;
  }
}

TEST(Equality, Route) {
  Random random(7);
  for (int trial = 0; trial < 10; ++trial) {
    RouterParams params;
    params.n_experts = 2 + static_cast<int>(random.below(15));
    params.top_k = 1 + static_cast<int>(random.below(params.n_experts));
    params.renormalise = trial % 2 == 0;
    params.scale = 1.7f;
    const int64_t rows = 1 + random.below(40), k = params.top_k;
    Block logits = random_block(random, rows, params.n_experts, 10.0f);
    for (float& v : logits.values) v = static_cast<float>(static_cast<int>(v));  // ties
    expect_equal_everywhere(random, rows, 2 * k, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      std::vector<int32_t> ids(static_cast<size_t>(count * k));
      std::vector<float> weights(ids.size());
      backend.route(logits.rows().slice(first, count), params, ids.data(), weights.data());
      for (int64_t i = 0; i < count * k; ++i) {
        out.row(i / k)[i % k] = weights[static_cast<size_t>(i)];
        out.row(i / k)[k + i % k] = static_cast<float>(ids[static_cast<size_t>(i)]);
      }
    });
  }
}

TEST(Equality, ExpertsHoweverTheRowsAreGrouped) {
  Random random(8);
  for (int trial = 0; trial < 8; ++trial) {
    const int64_t hidden = 32 * (1 + random.below(3)), width = 32 * (1 + random.below(3)),
                  n_experts = 1 + random.below(12);
    const int top_k = 1 + static_cast<int>(random.below(std::min<int64_t>(6, n_experts)));
    const int64_t rows = 1 + random.below(60);
    std::vector<Weights> matrices;
    std::vector<ExpertWeights> weights;
    std::vector<const ExpertWeights*> experts;
    for (int64_t e = 0; e < n_experts; ++e) {
      const Encoding encoding = kEncodings[random.below(4)];
      Weights gate = random_weights(random, encoding, width, hidden),
              up = random_weights(random, encoding, width, hidden);
      Weights down = random_weights(random, encoding, hidden, width);
      weights.push_back({gate.packed, up.packed, down.packed});
      for (Weights* w : {&gate, &up, &down}) matrices.push_back(std::move(*w));
    }
    for (const ExpertWeights& w : weights) experts.push_back(&w);
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t start = random.below(n_experts);
      for (int j = 0; j < top_k; ++j) ids.push_back(static_cast<int32_t>((start + 5 * j) % n_experts));
    }
    Block x = random_block(random, rows, hidden), mix = random_block(random, rows, top_k);
    expect_equal_everywhere(random, rows, hidden, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      backend.experts(x.rows().slice(first, count), ids.data() + first * top_k, mix.rows().row(first), top_k, experts,
                      out);
    });
  }
}

}  // namespace
}  // namespace colibri::compute
