// Attention with everything that families add to it, and the choice of keys of a sparse one: against plain computations
// in double, and bit by bit on every level, with any number of threads, in chunks of any size, over full caches and
// rings.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compute/cpu/isa.h"
#include "compute/cpu/test_data.h"

namespace colibri::compute {
namespace {

constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8};

/// Scalar with one thread, then every level that has kernels of its own, with three threads and one in turn.
const std::vector<std::unique_ptr<Backend>>& machines() {
  static const auto* all = [] {
    auto* list = new std::vector<std::unique_ptr<Backend>>;
    list->push_back(test_backend("scalar"));
    for (const Isa& isa : all_isas())
      if (isa.own_kernels && is_available(isa)) list->push_back(test_backend(isa.name, list->size() % 2 == 1 ? 3 : 1));
    return list;
  }();
  return *all;
}

// What a problem may have beside plain causal attention.
enum Feature { kWindow, kChunk, kSparse, kSinks, kSoftCap, kLatent, kTwoWidths, kEntries, kFeatures };

/// A sequence of n positions in one layer.
struct Problem {
  AttentionParams params;
  KvView shape;  ///< without memory
  int64_t n = 0;
  Block q, keys, values;
  int64_t rate = 0;  ///< with entries: positions for each
  Block entry_keys, entry_values;
  std::vector<float> sinks;
  std::vector<uint64_t> allowed;

  int group() const { return params.n_heads / shape.kv_heads; }
  int64_t reach() const {
    const int64_t window = params.window > 0 ? params.window : n, chunk = params.chunk > 0 ? params.chunk : n;
    return std::min(window, chunk);
  }
  bool sees(int64_t i, int64_t j) const {
    if (j > i || (params.window > 0 && i - j >= params.window)) return false;
    if (params.chunk > 0 && j / params.chunk != i / params.chunk) return false;
    return rate > 0 || is_allowed(i, j);
  }
  bool sees_entry(int64_t i, int64_t e) const { return e < (i + 1) / rate && is_allowed(i, e); }
  bool is_allowed(int64_t i, int64_t key) const {
    const KeySets& sets = params.allowed;
    return sets.words == nullptr || (sets.words[i * sets.words_per_row + key / 64] >> key % 64 & 1) != 0;
  }
};

/// Some of the keys before each row, in clusters with gaps of whole tiles, and its own.
void allow_some(Random& random, Problem& p) {
  p.params.allowed.words_per_row = p.n / 64 + 2;
  p.allowed.resize(static_cast<size_t>(p.n * p.params.allowed.words_per_row));
  for (uint64_t& word : p.allowed) word = random.below(3) == 0 ? 0 : random.bits() & random.bits();
  p.params.allowed.words = p.allowed.data();
  for (int64_t i = 0; i < p.n; ++i)
    p.allowed[static_cast<size_t>(i * p.params.allowed.words_per_row + i / 64)] |= uint64_t{1} << i % 64;
}

Problem random_problem(Random& random, unsigned features, KvType type) {
  const auto has = [features](Feature f) { return (features >> f & 1) != 0; };
  Problem p;
  p.n = 70 + random.below(100);
  p.shape.type = type;
  p.shape.kv_heads = 1 + static_cast<int>(random.below(2));
  p.params.n_heads = p.shape.kv_heads * (1 + static_cast<int>(random.below(random.below(5) == 0 ? 60 : 5)));
  p.shape.key_dim = 1 + static_cast<int>(random.below(90));
  p.shape.value_dim = has(kTwoWidths) ? 1 + static_cast<int>(random.below(70)) : p.shape.key_dim;
  p.shape.latent = has(kLatent);
  if (p.shape.latent) p.shape.value_dim = std::min(p.shape.value_dim, p.shape.key_dim);
  p.params.scale = 1.0f / std::sqrt(static_cast<float>(p.shape.key_dim));
  if (has(kWindow)) p.params.window = 1 + random.below(90);
  if (has(kChunk)) p.params.chunk = 1 + random.below(150);
  if (has(kSoftCap)) p.params.soft_cap = 0.5f + 2.0f * std::abs(random.real());
  p.q = random_block(random, p.n, int64_t{p.params.n_heads} * p.shape.key_dim, 4.0f);
  p.keys = random_block(random, p.n, int64_t{p.shape.kv_heads} * p.shape.key_dim, 2.0f);
  p.values = random_block(random, p.n, int64_t{p.shape.kv_heads} * p.shape.value_dim);
  if (has(kEntries)) {
    p.rate = 1 + random.below(random.below(2) == 0 ? 3 : 40);
    p.entry_keys = random_block(random, p.n / p.rate, p.keys.width, 2.0f);
    p.entry_values = random_block(random, p.n / p.rate, p.values.width);
  }
  for (int h = 0; has(kSinks) && h < p.params.n_heads; ++h) p.sinks.push_back(6.0f * random.real());
  if (has(kSinks)) p.params.sinks = p.sinks.data();
  if (has(kSparse)) allow_some(random, p);
  return p;
}

/// Each feature alone, then some of them by chance.
unsigned features_of(Random& random, int trial) {
  return trial < kFeatures ? 1u << trial : static_cast<unsigned>(random.bits() >> 40);
}

void append(Backend& backend, Block& keys, Block& values, const KvView& view, int64_t first, int64_t count) {
  const AttentionSegment s{view, 0, count, first};
  const Rows stored = view.latent ? Rows{} : values.rows().slice(first, count);
  backend.kv_append(keys.rows().slice(first, count), stored, {&s, 1});
}

void append(Backend& backend, Problem& p, const KvView& view, int64_t first, int64_t count) {
  append(backend, p.keys, p.values, view, first, count);
}

void attend(Backend& backend, Problem& p, const KvView& view, int64_t first, int64_t count, Rows out,
            const KvView& entries = {}) {
  const AttentionSegment s{view, 0, count, first, entries, p.rate};
  AttentionParams params = p.params;
  if (params.allowed.words != nullptr) params.allowed.words += first * params.allowed.words_per_row;
  backend.attention(p.q.rows().slice(first, count), {&s, 1}, params, out.slice(first, count));
}

Cache cache_of(const Problem& p, int64_t positions) {
  KvView shape = p.shape;
  shape.capacity = positions;
  return Cache(shape);
}

/// Outputs of the positions from `start` on, in passes of up to `most` rows; only what the first of them sees was
/// appended before.
Block run(Backend& backend, Random& random, Problem& p, Cache& cache, int64_t start, int64_t most) {
  Block out(p.n, int64_t{p.params.n_heads} * p.shape.value_dim);
  Cache entries = cache_of(p, std::max<int64_t>(1, p.rate > 0 ? p.n / p.rate : 0));
  int64_t n_entries = 0;
  for (int64_t first = std::max<int64_t>(0, start - p.reach() + 1); first < p.n;) {
    const int64_t end = first < start ? start : p.n;
    const int64_t count = std::min(end - first, 1 + random.below(most));
    append(backend, p, cache.view, first, count);
    const int64_t complete = p.rate > 0 ? (first + count) / p.rate : 0;
    if (complete > n_entries)
      append(backend, p.entry_keys, p.entry_values, entries.view, n_entries, complete - n_entries);
    n_entries = complete;
    const KvView& seen = p.rate > 0 ? entries.view : KvView{};
    if (first >= start) attend(backend, p, cache.view, first, count, out.rows(), seen);
    first += count;
  }
  return out;
}

/// What the cache makes of rows of heads.
Block as_cached(Block x, int64_t head_dim, KvType type) {
  for (size_t i = 0; i < x.values.size() && type == KvType::kF16; ++i)
    x.values[i] = f16_to_f32(f32_to_f16(x.values[i]));
  if (type != KvType::kQ8) return x;
  for (size_t i = 0; i < x.values.size();) {
    const auto left = static_cast<size_t>(head_dim - static_cast<int64_t>(i) % head_dim), within = head_dim - left;
    const size_t end = i + std::min(left, 32 - within % 32);
    float largest = 0;
    for (size_t j = i; j < end; ++j) largest = std::max(largest, std::abs(x.values[j]));
    const float scale = f16_to_f32(f32_to_f16(largest / 127.0f)), inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (; i < end; ++i) x.values[i] = scale * std::nearbyint(std::clamp(x.values[i] * inverse, -127.0f, 127.0f));
  }
  return x;
}

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

/// Keys and values as the cache has them; those of a latent view are the first channels of the keys.
struct Cached {
  Block keys, values;

  Cached(const Problem& p, const Block& k, const Block& v)
      : keys(as_cached(k, p.shape.key_dim, p.shape.type)), values(as_cached(v, p.shape.value_dim, p.shape.type)) {
    for (size_t head = 0; p.shape.latent && head < keys.values.size() / static_cast<size_t>(p.shape.key_dim); ++head)
      std::copy_n(keys.values.data() + head * static_cast<size_t>(p.shape.key_dim), p.shape.value_dim,
                  values.values.data() + head * static_cast<size_t>(p.shape.value_dim));
  }
};

/// One head of one row, from the formulas.
std::vector<double> attend_plainly(const Problem& p, Cached& positions, Cached& entries, int64_t i, int h) {
  const int64_t head = h / p.group(), k = p.shape.key_dim, v = p.shape.value_dim;
  std::vector<std::pair<const float*, const float*>> seen;
  for (int64_t j = 0; j <= i; ++j)
    if (p.sees(i, j))
      seen.emplace_back(positions.keys.rows().row(j) + head * k, positions.values.rows().row(j) + head * v);
  for (int64_t e = 0; p.rate > 0 && e < p.n / p.rate; ++e)
    if (p.sees_entry(i, e))
      seen.emplace_back(entries.keys.rows().row(e) + head * k, entries.values.rows().row(e) + head * v);

  std::vector<double> scores, out(static_cast<size_t>(v));
  double largest = p.params.sinks != nullptr ? static_cast<double>(p.params.sinks[h]) : -INFINITY;
  for (const auto& [key, value] : seen) {
    double score = static_cast<double>(p.params.scale) * dot(p.q.values.data() + i * p.q.width + h * k, key, k);
    const double cap = static_cast<double>(p.params.soft_cap);
    if (cap > 0) score = cap * std::tanh(score / cap);
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  double sum = p.params.sinks != nullptr ? std::exp(static_cast<double>(p.params.sinks[h]) - largest) : 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (size_t j = 0; j < seen.size(); ++j)
    for (int64_t c = 0; c < v; ++c)
      out[static_cast<size_t>(c)] += scores[j] / sum * static_cast<double>(seen[j].second[c]);
  return out;
}

void expect_formulas(Problem& p, Block& got) {
  Cached positions(p, p.keys, p.values), entries(p, p.entry_keys, p.entry_values);
  for (int64_t i = 0; i < p.n; i += 7) {
    for (int h = 0; h < p.params.n_heads; h += 1 + p.params.n_heads / 5) {
      const std::vector<double> expected = attend_plainly(p, positions, entries, i, h);
      for (int64_t c = 0; c < p.shape.value_dim; ++c)
        ASSERT_NEAR(got.rows().row(i)[h * p.shape.value_dim + c], expected[static_cast<size_t>(c)], 1e-5)
            << "row " << i << " head " << h;
    }
  }
}

std::string description(const Problem& p, unsigned features) {
  return std::string(name(p.shape.type)) + " features " + std::to_string(features % (1u << kFeatures)) + ", widths " +
         std::to_string(p.shape.key_dim) + " and " + std::to_string(p.shape.value_dim) + ", group " +
         std::to_string(p.group()) + ", window " + std::to_string(p.params.window) + ", rate " + std::to_string(p.rate);
}

TEST(Attention, FollowsItsFormulasAndIsTheSameEverywhereInPassesOfAnySizeOverCachesAndRings) {
  Random random(31);
  for (int trial = 0; trial < 14; trial += COLIBRI_TEST_STEP) {
    const unsigned features = features_of(random, trial);
    for (KvType type : kKvTypes) {
      Problem p = random_problem(random, features, type);
      SCOPED_TRACE(description(p, features));
      Cache whole = cache_of(p, p.n);
      Block expected = run(*machines()[0], random, p, whole, 0, 1'000'000'000);
      expect_formulas(p, expected);
      for (const auto& machine : machines()) {
        const int64_t most = 1 + random.below(random.below(3) == 0 ? 3 : 90);
        Cache ring = cache_of(p, p.reach() + most - 1);
        Block got = run(*machine, random, p, ring, 0, most);
        ASSERT_EQ(got, expected) << machine->isa() << ", " << machine->threads() << " threads, passes of " << most;
      }
    }
  }
}

// A sequence may be continued from a copy of its windows: what lies before them was never written.
TEST(Attention, WhatIsBehindTheWindowNeedNotBeThere) {
  Random random(32);
  for (int trial = 0; trial < 6; trial += COLIBRI_TEST_STEP) {
    Problem p = random_problem(random, 1u << kWindow | (trial % 2 == 0 ? 1u << kLatent : 0), kKvTypes[trial % 3]);
    Cache whole = cache_of(p, p.n), ring = cache_of(p, p.reach() + 20);
    Block expected = run(*machines()[0], random, p, whole, 0, p.n);
    for (const auto& machine : machines()) {
      const int64_t start = p.n / 2 + random.below(p.n / 2);
      ring.forget();
      Block got = run(*machine, random, p, ring, start, 20);
      for (int64_t i = start; i < p.n; ++i)
        ASSERT_TRUE(std::equal(got.rows().row(i), got.rows().row(i) + got.width, expected.rows().row(i)))
            << description(p, 0) << " row " << i << " " << machine->isa();
    }
  }
}

// The widths and the group of the largest MLA models: more heads than a kernel takes at once.
TEST(Attention, ManyHeadsShareOneLatentOfTheFullWidth) {
  Random random(33);
  for (size_t i = 0; i < std::size(kKvTypes); i += COLIBRI_TEST_STEP) {
    const KvType type = kKvTypes[i];
    Problem p = random_problem(random, 0, type);
    p.n = 70;
    p.shape = {nullptr, type, 0, 1, 576, 512, true};
    p.params.n_heads = 128;
    p.params.scale = 0.05f;
    p.q = random_block(random, p.n, 128 * 576, 2.0f);
    p.keys = random_block(random, p.n, 576, 2.0f);
    p.values = Block(p.n, 512);
    Cache cache = cache_of(p, p.n);
    append(*machines()[0], p, cache.view, 0, p.n);
    Block expected(p.n, 128 * 512);
    attend(*machines()[0], p, cache.view, p.n - 2, 2, expected.rows());
    for (const auto& machine : machines()) {
      Block got(p.n, 128 * 512);
      attend(*machine, p, cache.view, p.n - 2, 1, got.rows());
      attend(*machine, p, cache.view, p.n - 1, 1, got.rows());
      ASSERT_EQ(got, expected) << machine->isa() << " " << machine->threads();
    }
    Cached positions(p, p.keys, p.values);
    const std::vector<double> plain = attend_plainly(p, positions, positions, p.n - 1, 127);
    for (int64_t c = 0; c < 512; ++c)
      ASSERT_NEAR(expected.rows().row(p.n - 1)[127 * 512 + c], plain[static_cast<size_t>(c)], 1e-5);
  }
}

/// Rows that choose among the keys of one sequence.
struct Choice {
  int64_t n, heads, top_k, rate;
  KvView shape;
  Block q, weights, keys;
};

Choice random_choice(Random& random, KvType type, bool ties) {
  Choice c;
  c.n = 1 + random.below(300);
  c.heads = 1 + random.below(9);
  c.top_k = 1 + random.below(random.below(2) == 0 ? 20 : 200);
  c.rate = random.below(2) == 0 ? 1 : 1 + random.below(5);
  c.shape = {nullptr, type, c.n / c.rate, 1, 1 + static_cast<int>(random.below(80)), 0};
  c.q = random_block(random, c.n, c.heads * c.shape.key_dim);
  c.weights = random_block(random, c.n, c.heads);
  c.keys = random_block(random, c.n / c.rate, c.shape.key_dim);
  for (Block* block : {&c.q, &c.weights, &c.keys})
    for (float& x : block->values)
      if (ties) x = std::nearbyint(x * 0.7f);  // mostly zeros, and few different scores
  return c;
}

/// The score as backend.h defines it. keys as the cache has them.
float index_score(Choice& c, Rows keys, int64_t i, int64_t j) {
  float score = 0;
  for (int64_t h = 0; h < c.heads; ++h) {
    float product = 0;
    const float* q = c.q.rows().row(i) + h * c.shape.key_dim;
    for (int64_t d = 0; d < c.shape.key_dim; ++d) product = std::fmaf(q[d], keys.row(j)[d], product);
    score = std::fmaf(c.weights.rows().row(i)[h], product > 0 ? product : 0.0f, score);
  }
  return score;
}

std::vector<uint64_t> choose_plainly(Choice& c, int64_t words) {
  Block keys = as_cached(c.keys, c.shape.key_dim, c.shape.type);
  std::vector<uint64_t> chosen(static_cast<size_t>(c.n * words));
  for (int64_t i = 0; i < c.n; ++i) {
    std::vector<float> scores;
    for (int64_t j = 0; j < (i + 1) / c.rate; ++j) scores.push_back(index_score(c, keys.rows(), i, j));
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto rank = [&](int64_t j) { return std::isnan(scores[static_cast<size_t>(j)]) ? 1 : 0; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (rank(a) != 0 || rank(b) != 0) return rank(a) < rank(b);
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    for (size_t k = 0; k < std::min(order.size(), static_cast<size_t>(c.top_k)); ++k)
      chosen[static_cast<size_t>(i * words + order[k] / 64)] |= uint64_t{1} << order[k] % 64;
  }
  return chosen;
}

TEST(SelectKeys, IsAStableSortOfTheScoresEverywhere) {
  Random random(34);
  for (int trial = 0; trial < 12; trial += COLIBRI_TEST_STEP) {
    Choice c = random_choice(random, kKvTypes[trial % 3], trial % 2 == 0);
    if (trial > 7) c.weights.values[0] = NAN, c.weights.values.back() = -INFINITY;
    Cache cache(c.shape);
    const AttentionSegment all{cache.view, 0, c.n / c.rate, 0};
    machines()[0]->kv_append(c.keys.rows(), Rows{}, {&all, 1});
    const int64_t words = (c.n + 63) / 64 + random.below(2);
    const std::vector<uint64_t> expected = choose_plainly(c, words);
    for (const auto& machine : machines()) {
      std::vector<uint64_t> got(expected.size(), ~uint64_t{0});
      for (int64_t first = 0; first < c.n;) {
        const int64_t count = 1 + random.below(c.n - first);
        const AttentionSegment s{cache.view, 0, count, first, {}, c.rate};
        machine->select_keys(c.q.rows().slice(first, count), c.weights.rows().slice(first, count), {&s, 1}, c.top_k,
                             {got.data() + first * words, words});
        first += count;
      }
      ASSERT_EQ(got, expected) << machine->isa() << ", " << c.n << " rows, rate " << c.rate << ", top " << c.top_k
                               << ", trial " << trial;
    }
  }
}

}  // namespace
}  // namespace colibri::compute
