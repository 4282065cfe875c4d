// The promise of backend.h: results are equal bit by bit on every level, with any number of threads, however the rows
// are split into calls. Each trial draws a problem and runs it on scalar whole, then on everything else.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/cpu/isa.h"
#include "compute/cpu/test_data.h"
#include "compute/cpu/tiling.h"

namespace colibri::compute {
namespace {

struct Machine {
  std::string isa;
  int threads;
  std::unique_ptr<Backend> backend;
};
using Machines = std::vector<Machine>;

/// Every level that has kernels of its own, with 1, 2 and 3 threads; scalar last.
Machines make_machines(bool float_activations) {
  Machines list;
  for (const Isa& isa : all_isas())
    for (int threads = 1; isa.own_kernels && is_available(isa) && threads <= 3; ++threads)
      list.push_back({isa.name, threads, test_backend(isa.name, threads, float_activations)});
  return list;
}
const Machines& machines() {
  static const auto* all = new Machines(make_machines(false));
  return *all;
}
const Machines& machines_without_quantised_activations() {
  static const auto* all = new Machines(make_machines(true));
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
void expect_equal_everywhere(Random& random, int64_t rows, int64_t width, const Run& run,
                             const Machines& all = machines()) {
  Block expected(rows, width);
  run(*all.back().backend, 0, rows, expected.rows());
  for (const Machine& m : all) {
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

void expect_equal_matmuls(Random& random, Encoding encoding, int64_t rows, const Machines& all) {
  const int64_t n = 1 + random.below(150), k = random_inputs(random, encoding);
  const Weights w = random_weights(random, encoding, n, k);
  Block x = random_block(random, rows, k), bias = random_block(random, 1, n);
  const float* b = rows % 2 == 0 ? bias.values.data() : nullptr;
  expect_equal_everywhere(
      random, rows, n,
      [&](Backend& backend, int64_t first, int64_t count, Rows out) {
        backend.matmul(x.rows().slice(first, count), w.packed, b, out);
      },
      all);
}

/// Block encodings share one kernel: a few row counts of each do, but for one that stands for all.
int64_t row_step(Encoding encoding) {
  const bool same_kernel = is_blocks(encoding) && encoding != Encoding::kIQ3_S;
  return same_kernel ? 13 : COLIBRI_TEST_STEP;
}

TEST(Equality, MatmulOfEveryEncoding) {
  Random random(1);
  for (Encoding encoding : kEncodings)
    for (int64_t rows = 1; rows <= 40; rows += row_step(encoding))
      expect_equal_matmuls(random, encoding, rows, machines());
}

TEST(Equality, MatmulOfMoreRowsThanABlock) {
  Random random(9);
  for (Encoding encoding : {Encoding::kQ8_0, Encoding::kQ4_K, Encoding::kBF16, Encoding::kIQ3_S})
    expect_equal_matmuls(random, encoding, kRowBlock + 19, machines());
}

TEST(Equality, MatmulOfEveryEncodingWithoutQuantisedActivations) {
  Random random(10);
  constexpr int64_t kRows[] = {7, 1, 2, 30};
  for (Encoding encoding : kEncodings)
    for (size_t i = 0; i < std::size(kRows); i += COLIBRI_TEST_STEP)
      expect_equal_matmuls(random, encoding, kRows[i], machines_without_quantised_activations());
}

// The integer sums are exact at their limits too: all codes and activations at the ends of their ranges.
TEST(Equality, QuantisedMatmulOfExtremeNumbers) {
  Random random(11);
  for (Encoding encoding : kEncodings) {
    if (!has_codes(encoding)) continue;
    for (int byte : {0x00, 0x7f, 0x80, 0xff}) {
      const int64_t rows = 1 + random.below(14), n = 20, k = 512;
      Weights w = random_weights(random, encoding, n, k, byte);
      Block x(rows, k);
      for (float& v : x.values) v = random.below(8) == 0 ? -1.0f : 1.0f;
      expect_equal_everywhere(random, rows, n, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
        backend.matmul(x.rows().slice(first, count), w.packed, nullptr, out);
      });
    }
  }
}

TEST(Equality, QuantisedMatmulOfTinyHugeAndNonFiniteActivations) {
  Random random(12);
  for (Encoding encoding :
       {Encoding::kQ8_0, Encoding::kQ4_1, Encoding::kQ4_K, Encoding::kQ6_K, Encoding::kQ2_K, Encoding::kIQ2_S}) {
    const int64_t rows = 9, n = 33, k = 512;
    const Weights w = random_weights(random, encoding, n, k);
    Block x = random_block(random, rows, k);
    const float edges[] = {0.0f, 0x1p-149f, 0x1p-101f, 0x1p-99f, 0x1p120f, INFINITY, -INFINITY, NAN};
    for (int64_t r = 0; r < 8; ++r) {
      if (edges[r] == 0.0f) std::fill_n(x.rows().row(r), k, 0.0f);
      if (std::fabs(edges[r]) < 1.0f) std::fill_n(x.rows().row(r), 256, edges[r]);
      x.rows().row(r)[3] = edges[r];
    }
    expect_equal_everywhere(random, rows, n, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      backend.matmul(x.rows().slice(first, count), w.packed, nullptr, out);
      for (int64_t r = 0; r < count; ++r)
        for (int64_t c = 0; c < n; ++c) {
          EXPECT_EQ(std::isnan(out.row(r)[c]), first + r >= 5 && first + r < 8);
          if (std::isnan(out.row(r)[c])) out.row(r)[c] = 7.0f;  // which NaN it is does not matter
        }
    });
  }
}

TEST(Equality, ProductsOfOneInputAreWhatEachWouldBeAlone) {
  Random random(13);
  const int64_t rows = 11, k = 256;
  const Weights a = random_weights(random, Encoding::kQ4_K, 70, k), b = random_weights(random, Encoding::kF32, 5, k),
                c = random_weights(random, Encoding::kQ6_K, 16, k);
  Block x = random_block(random, rows, k), bias = random_block(random, 1, 70);
  for (const Machine& m : machines()) {
    Block together[3] = {{rows, 70}, {rows, 5}, {rows, 16}}, alone[3] = {{rows, 70}, {rows, 5}, {rows, 16}};
    const Product products[] = {{&a.packed, bias.values.data(), together[0].rows()},
                                {&b.packed, nullptr, together[1].rows()},
                                {&c.packed, nullptr, together[2].rows()}};
    m.backend->multiply(x.rows(), products);
    m.backend->matmul(x.rows(), a.packed, bias.values.data(), alone[0].rows());
    m.backend->matmul(x.rows(), b.packed, nullptr, alone[1].rows());
    m.backend->matmul(x.rows(), c.packed, nullptr, alone[2].rows());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(together[i], alone[i]) << m.isa;
  }
}

void expect_equal_groups(Random& random, Encoding encoding, int64_t rows, const Machines& all) {
  const int64_t groups = 1 + random.below(6), n = 1 + random.below(70), block = block_inputs(encoding);
  const int64_t k = block == 1 ? 1 + random.below(90) : block * (1 + random.below(std::max<int64_t>(2, 384 / block)));
  std::vector<Weights> owned;
  std::vector<PackedMatrix> w;
  for (int64_t g = 0; g < groups; ++g) w.push_back(owned.emplace_back(random_weights(random, encoding, n, k)).packed);
  Block x = random_block(random, rows, groups * k), alone(rows, groups * n), slice(rows, k), product(rows, n);
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(x.rows().row(r) + g * k, k, slice.rows().row(r));
    all.back().backend->matmul(slice.rows(), w[static_cast<size_t>(g)], nullptr, product.rows());
    for (int64_t r = 0; r < rows; ++r) std::copy_n(product.rows().row(r), n, alone.rows().row(r) + g * n);
  }
  const auto run = [&](Backend& backend, int64_t first, int64_t count, Rows out) {
    backend.multiply_groups(x.rows().slice(first, count), w, out);
    for (int64_t r = 0; r < count; ++r)
      ASSERT_EQ(0, std::memcmp(out.row(r), alone.rows().row(first + r), static_cast<size_t>(out.width) * sizeof(float)))
          << name(encoding) << ", " << groups << " groups of [" << n << ", " << k << "]";
  };
  expect_equal_everywhere(random, rows, groups * n, run, all);
}

TEST(Equality, GroupedProductsAreWhatEachGroupWouldBeAlone) {
  Random random(14);
  for (Encoding encoding : kEncodings) expect_equal_groups(random, encoding, 1 + random.below(14), machines());
  for (Encoding encoding : {Encoding::kBF16, Encoding::kQ4_K}) {
    expect_equal_groups(random, encoding, kRowBlock + 5, machines());
    expect_equal_groups(random, encoding, 3, machines_without_quantised_activations());
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
    const int64_t rows = 1 + random.below(40), heads = 1 + random.below(9), n = heads * (1 + random.below(40));
    const int64_t gates[] = {1, heads, n};
    Block x = random_block(random, rows, n, 20.0f), y = random_block(random, rows, n),
          gate = random_block(random, rows, gates[trial % 3], 9.0f);
    expect_equal_everywhere(random, rows, n, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      const Rows some_x = x.rows().slice(first, count), some_y = y.rows().slice(first, count);
      backend.activate(some_x, some_y, kActivations[trial % std::size(kActivations)], out);
      backend.add(out, some_x);
      backend.scale_by_sigmoid(out, gate.rows().slice(first, count));
      backend.rms_norm(out, trial % 2 == 0 ? y.values.data() : nullptr, 1e-6f, out);
      backend.multiply_elements(out, some_x);
      backend.add_scaled(out, 0.37f, some_y);
      backend.soft_cap(out, 3.0f);
      backend.layer_norm(out, x.values.data(), y.values.data(), 1e-5f, out);
      backend.scale(out, 0.3f);
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
    const auto offset = static_cast<int>(random.below(head_dim - rotary + 1));
    const RopeTable table{trial % 2 == 0, rotary, cosines.values.data(), sines.values.data(), offset, trial % 4 < 2};
    std::vector<int32_t> positions;
    for (int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<int32_t>(random.below(rows)));
    expect_equal_everywhere(random, rows, x.width, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
      std::copy_n(x.rows().row(first), count * x.width, out.data);
      backend.rope(out, head_dim, std::span(positions).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                   table);
    });
  }
}

constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8};

// A chunk of a prompt sees the keys before it and its own, so a split call appends and attends chunk by chunk.
TEST(Equality, AttentionInChunksOfAnySizeOverEveryKvType) {
  Random random(5);
  for (int trial = 0; trial < 12; trial += COLIBRI_TEST_STEP) {
    const int kv_heads = 1 + static_cast<int>(random.below(3)), group = 1 + static_cast<int>(random.below(8));
    const int head_dim = 1 + static_cast<int>(random.below(trial % 6 == 0 ? 256 : 80)), heads = kv_heads * group;
    const int64_t before = trial % 3 == 0 ? 0 : random.below(140), rows = 1 + random.below(90);
    Block q = random_block(random, rows, heads * head_dim, 3.0f);
    Block keys = random_block(random, before + rows, kv_heads * head_dim, 3.0f);
    Block values = random_block(random, before + rows, kv_heads * head_dim);
    for (KvType type : kKvTypes) {
      Cache cache(type, kv_heads, head_dim, 240);
      const auto append = [&](Backend& backend, int64_t first, int64_t count) {
        const AttentionSegment s{cache.view, 0, count, first};
        backend.kv_append(keys.rows().slice(first, count), values.rows().slice(first, count), {&s, 1});
      };
      SCOPED_TRACE(std::string(name(type)) + ", head_dim " + std::to_string(head_dim) + ", group " +
                   std::to_string(group));
      expect_equal_everywhere(random, rows, q.width, [&](Backend& backend, int64_t first, int64_t count, Rows out) {
        if (first == 0) {
          cache.forget();
          if (before > 0) append(backend, 0, before);
        }
        append(backend, before + first, count);
        const AttentionSegment s{cache.view, 0, count, before + first};
        backend.attention(q.rows().slice(first, count), {&s, 1}, {heads, 0.4f}, out);
      });
    }
  }
}

// Bits in memory, so that a cache may be written by one level and read by another.
TEST(Equality, CachesHoldTheSameBytesWhicheverLevelWroteThem) {
  Random random(9);
  for (int head_dim : {16, 33, 72, 256}) {
    const int64_t rows = 70;
    Block keys = random_block(random, rows, head_dim, 4.0f), values = random_block(random, rows, head_dim);
    for (float& v : values.values)
      v *= std::ldexp(1.0f, static_cast<int>(random.below(60)) - 40);  // subnormal halves too
    values.values[5] = NAN;
    keys.values[7] = 1e9f;
    for (KvType type : kKvTypes) {
      std::vector<uint64_t> expected;
      for (const Machine& m : machines()) {
        Cache cache(type, 1, head_dim, rows);
        const AttentionSegment s{cache.view, 0, rows, 0};
        m.backend->kv_append(keys.rows(), values.rows(), {&s, 1});
        if (expected.empty()) expected = cache.memory;
        ASSERT_EQ(cache.memory, expected) << m.isa << " " << name(type) << " head_dim " << head_dim;
      }
    }
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
    caches.push_back(std::make_unique<Cache>(kKvTypes[rows % 3], kv_heads, head_dim, 128));
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

/// The experts that rows chose, ascending; shuffled in groups when any order is allowed.
std::vector<std::vector<int32_t>> arrivals(Random& random, std::span<const int32_t> ids, bool any_order) {
  std::vector<int32_t> chosen(ids.begin(), ids.end());
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  std::vector<std::vector<int32_t>> groups;
  for (size_t first = 0; first < chosen.size();) {
    const size_t n = 1 + static_cast<size_t>(random.below(static_cast<int64_t>(chosen.size() - first)));
    groups.emplace_back(chosen.begin() + static_cast<long>(first), chosen.begin() + static_cast<long>(first + n));
    first += n;
  }
  if (!any_order) return groups;
  for (size_t i = groups.size(); i > 1; --i)
    std::swap(groups[i - 1], groups[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  return groups;
}

/// Some experts after the other, between which other operations use the backend.
void run_in_parts(Random& random, Backend& backend, Rows x, std::span<const int32_t> ids, const float* weights,
                  ExpertParams params, std::span<const ExpertWeights* const> experts, Rows out) {
  const auto n = static_cast<int32_t>(experts.size());
  for (params.only.end = 0; params.only.end < n;) {
    params.only.first = params.only.end;
    params.only.end = std::min(n, params.only.end + 1 + static_cast<int32_t>(random.below(n)));
    backend.experts(x, ids.data(), weights, params, experts, out);
    Block other = random_block(random, x.rows, x.width), mixed(x.rows, x.width);
    ExpertParams all = params;
    all.only = {};
    backend.experts(other.rows(), ids.data(), weights, all, experts, mixed.rows());
  }
}

/// All at once, in parts, or as they might arrive from a disk.
void run_experts(Random& random, Backend& backend, Rows x, std::span<const int32_t> ids, const float* weights,
                 const ExpertParams& params, std::span<const ExpertWeights* const> experts, Rows out) {
  const int64_t way = random.below(3);
  if (way == 0) return backend.experts(x, ids.data(), weights, params, experts, out);
  if (way == 1) return run_in_parts(random, backend, x, ids, weights, params, experts, out);
  std::vector<int32_t> with_weights;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(with_weights),
               [&experts](int32_t id) { return id < static_cast<int32_t>(experts.size()); });
  backend.begin_experts(x, ids.data(), weights, params, experts, out);
  for (const auto& group : arrivals(random, with_weights, x.rows <= test_limits().max_apart_rows))
    backend.add_experts(group);
  backend.end_experts();
}

void expect_equal_experts(Random& random, const Machines& all) {
  const int64_t hidden = 32 * (1 + random.below(12)), width = 32 * (1 + random.below(12)),
                n_experts = 1 + random.below(12), rows = 1 + random.below(60);
  ExpertParams params;
  params.top_k = 1 + static_cast<int>(random.below(std::min<int64_t>(6, n_experts)));
  params.activation = kActivations[random.below(std::size(kActivations))];
  params.n_identity = random.below(3) == 0 ? 1 + static_cast<int>(random.below(4)) : 0;
  const bool biased = random.below(3) == 0;
  params.weight_on_input = !biased && random.below(3) == 0;
  const RandomExperts experts(random, n_experts, hidden, width, is_gated(params.activation), biased);
  const int64_t n_ids = n_experts + params.n_identity, top_k = params.top_k;
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t start = random.below(n_ids);
    for (int64_t j = 0; j < top_k; ++j) ids.push_back(static_cast<int32_t>((start + 5 * j) % n_ids));
  }
  Block x = random_block(random, rows, hidden), mix = random_block(random, rows, top_k);
  expect_equal_everywhere(
      random, rows, hidden,
      [&](Backend& backend, int64_t first, int64_t count, Rows out) {
        const std::span<const int32_t> chosen(ids.data() + first * top_k, static_cast<size_t>(count * top_k));
        run_experts(random, backend, x.rows().slice(first, count), chosen, mix.rows().row(first), params,
                    experts.pointers, out);
      },
      all);
}

TEST(Equality, ExpertsHoweverTheRowsAreGroupedAndWheneverTheyArrive) {
  Random random(8);
  for (int trial = 0; trial < 32; trial += COLIBRI_TEST_STEP) expect_equal_experts(random, machines());
  for (int trial = 0; trial < 4; trial += COLIBRI_TEST_STEP)
    expect_equal_experts(random, machines_without_quantised_activations());
}

}  // namespace
}  // namespace colibri::compute
