// Every operation of every level against a plain computation in double: proves the arithmetic itself, where
// equality_test.cc proves that all levels do the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compute/cpu/test_data.h"

namespace colibri::compute {
namespace {

class Reference : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    backend_ = test_backend(GetParam(), 2);
    float_backend_ = test_backend(GetParam(), 2, true);
  }
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> float_backend_;  ///< never quantises activations
  Random random_{7};
};

std::vector<std::string> available_levels() {
  std::vector<std::string> names;
  for (const IsaLevel& level : isa_levels())
    if (level.available) names.push_back(level.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Levels, Reference, testing::ValuesIn(available_levels()),
                         [](const auto& level) { return level.param; });

double dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The row as 8-bit activations stand for it: per 256 elements, multiples of the largest magnitude / 127.
Block rounded_to_strips(Block x) {
  for (size_t first = 0; first < x.values.size();) {
    const size_t row_end = (first / static_cast<size_t>(x.width) + 1) * static_cast<size_t>(x.width);
    const size_t end = std::min(first + 256, row_end);
    float largest = 0;
    for (size_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(x.values[i]));
    for (size_t i = first; i < end; ++i)
      x.values[i] = largest / 127.0f * std::nearbyint(x.values[i] * (127.0f / largest));
    first = end;
  }
  return x;
}

void expect_dot_products(Backend& backend, Random& random, Encoding encoding, bool rounded) {
  for (int64_t rows : {1, 2, 5, 13, 29}) {
    const int64_t n = 67, k = block_inputs(encoding) == 256 ? 512 : block_inputs(encoding) > 32 ? 384 : 352;
    Weights w = random_weights(random, encoding, n, k);
    Block x = random_block(random, rows, k), bias = random_block(random, 1, n), y(rows, n);
    backend.matmul(x.rows(), w.packed, bias.values.data(), y.rows());
    Block seen = rounded ? rounded_to_strips(x) : x;
    double size = 0;
    for (float v : w.dense.values) size = std::max(size, std::fabs(static_cast<double>(v)));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c)
        ASSERT_NEAR(y.rows().row(r)[c],
                    dot(seen.rows().row(r), w.dense.rows().row(c), k) +
                        static_cast<double>(bias.values[static_cast<size_t>(c)]),
                    2e-5 * (1 + size))
            << name(encoding) << " rows " << rows;
  }
}

TEST_P(Reference, MatmulOfEveryEncodingIsTheDotProduct) {
  for (Encoding encoding : kEncodings) {
    expect_dot_products(*backend_, random_, encoding, has_codes(encoding));
    expect_dot_products(*float_backend_, random_, encoding, false);
  }
}

TEST_P(Reference, MatmulIsOneChainOfFusedMultiplyAdds) {
  const int64_t rows = 3, n = 19, k = 77;
  Weights w = random_weights(random_, Encoding::kF32, n, k);
  Block x = random_block(random_, rows, k), y(rows, n);
  backend_->matmul(x.rows(), w.packed, nullptr, y.rows());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      float chain = 0;
      for (int64_t i = 0; i < k; ++i) chain = std::fmaf(x.rows().row(r)[i], w.dense.rows().row(c)[i], chain);
      ASSERT_EQ(y.rows().row(r)[c], chain);
    }
  }
}

// k = 2 with the first product being c * 1 computes fma(a, b, c): edges where a fma in two roundings goes wrong.
TEST_P(Reference, FmaRoundsOnceOnEdgeCases) {
  const float tiny = 0x1p-149f, half_ulp = 0x1p-24f, inf = INFINITY;
  const std::vector<float> edges = {0.0f,
                                    1.0f,
                                    -1.0f,
                                    tiny,
                                    -tiny,
                                    0x1p-126f,
                                    0x1.fffffep-127f,
                                    3.0f,
                                    half_ulp,
                                    -half_ulp,
                                    inf,
                                    0x1.fffffep127f,
                                    -0x1.fffffep127f,
                                    0x1.000002p0f,
                                    1e-30f,
                                    0x1p-75f,
                                    0x1.000002p-75f,
                                    -0x1.fffffep-76f,
                                    0x1.8p-64f,
                                    0x1p64f,
                                    1 + 0x1p-12f};
  Weights w = random_weights(random_, Encoding::kF32, 16, 2);
  auto* panel = reinterpret_cast<float*>(w.lines.data());
  Block x(1, 2), y(1, 16);
  std::vector<float> more = edges;
  for (int i = 0; i < 60; ++i)  // random signs, exponents and mantissas
    more.push_back(std::ldexp(random_.real(), static_cast<int>(random_.below(276)) - 149));
  for (float a : more) {
    for (float c : more) {
      for (size_t first = 0; first < more.size(); first += 16) {
        for (size_t i = 0; i < 16; ++i) {
          panel[i] = 1.0f;
          panel[16 + i] = more[(first + i) % more.size()];
        }
        x.values = {c, a};
        backend_->matmul(x.rows(), w.packed, nullptr, y.rows());
        for (size_t i = 0; i < 16; ++i) {
          const float expected = std::fmaf(a, panel[16 + i], std::fmaf(c, 1.0f, 0.0f));
          if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(y.values[i]));
          } else {
            ASSERT_EQ(y.values[i], expected) << a << " * " << panel[16 + i] << " + " << c;
          }
        }
      }
    }
  }
}

TEST_P(Reference, EveryHalfAndBfloatDecodesExactly) {
  for (Encoding encoding : {Encoding::kF16, Encoding::kBF16}) {
    Weights w = random_weights(random_, encoding, 16, 1);
    auto* panel = reinterpret_cast<uint16_t*>(w.lines.data());
    Block x(1, 1), y(1, 16);
    x.values = {1.0f};
    for (uint32_t bits = 0; bits < 0x10000; bits += 16) {
      for (uint32_t i = 0; i < 16; ++i) panel[i] = static_cast<uint16_t>(bits + i);
      backend_->matmul(x.rows(), w.packed, nullptr, y.rows());
      for (uint32_t i = 0; i < 16; ++i) {
        const float expected = encoding == Encoding::kF16 ? f16_to_f32(panel[i]) : bf16_to_f32(panel[i]);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(y.values[i]));
        } else {
          ASSERT_EQ(y.values[i], expected) << name(encoding) << " bits " << bits + i;
        }
      }
    }
  }
}

TEST_P(Reference, EmbedCopiesTheRowsOfTheIds) {
  Weights table = random_weights(random_, Encoding::kQ8_0, 40, 64);
  const std::vector<int32_t> ids = {39, 0, 17, 17};
  Block out(4, 64);
  backend_->embed(table.packed, ids, out.rows());
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t i = 0; i < 64; ++i)
      ASSERT_EQ(out.rows().row(r)[i], table.dense.rows().row(ids[static_cast<size_t>(r)])[i]);
}

TEST_P(Reference, RmsNormDividesByTheRootOfTheMeanSquare) {
  for (int64_t n : {1, 15, 16, 17, 100}) {
    Block x = random_block(random_, 3, n), weight = random_block(random_, 1, n), y(3, n);
    backend_->rms_norm(x.rows(), weight.values.data(), 1e-5f, y.rows());
    for (int64_t r = 0; r < 3; ++r) {
      const float* row = x.rows().row(r);
      const double root = std::sqrt(dot(row, row, n) / static_cast<double>(n) + 1e-5);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(y.rows().row(r)[i],
                    static_cast<double>(row[i]) / root * static_cast<double>(weight.values[static_cast<size_t>(i)]),
                    2e-6);
    }
    Block plain(3, n);
    backend_->rms_norm(x.rows(), nullptr, 1e-5f, plain.rows());
    for (size_t i = 0; i < y.values.size(); ++i)
      ASSERT_EQ(plain.values[i] * weight.values[i % static_cast<size_t>(n)], y.values[i]) << "without a weight";
    backend_->rms_norm(x.rows(), weight.values.data(), 1e-5f, x.rows());
    EXPECT_EQ(x, y) << "in place";
  }
}

TEST_P(Reference, LayerNormTakesAwayTheMeanAndDividesByTheDeviation) {
  for (int64_t n : {1, 15, 16, 17, 100}) {
    Block x = random_block(random_, 3, n), weight = random_block(random_, 1, n), bias = random_block(random_, 1, n),
          y(3, n);
    for (float& v : x.values) v += 5;
    backend_->layer_norm(x.rows(), weight.values.data(), bias.values.data(), 1e-5f, y.rows());
    for (int64_t r = 0; r < 3; ++r) {
      const float* row = x.rows().row(r);
      const double mean = std::accumulate(row, row + n, 0.0) / static_cast<double>(n);
      double variance = 0;
      for (int64_t i = 0; i < n; ++i)
        variance += std::pow(static_cast<double>(row[i]) - mean, 2) / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(y.rows().row(r)[i],
                    (static_cast<double>(row[i]) - mean) / std::sqrt(variance + 1e-5) *
                            static_cast<double>(weight.values[static_cast<size_t>(i)]) +
                        static_cast<double>(bias.values[static_cast<size_t>(i)]),
                    1e-5)
            << n << " elements";
    }
    backend_->layer_norm(x.rows(), weight.values.data(), bias.values.data(), 1e-5f, x.rows());
    EXPECT_EQ(x, y) << "in place";
  }
}

double activated(const Activation& a, double g, double u) {
  const auto limit = static_cast<double>(a.limit);
  const double low_g = std::min(g, limit), low_u = std::clamp(u, -limit, limit);
  switch (a.kind) {
    case ActivationKind::kSilu:
      return g * sigmoid(g) * u;
    case ActivationKind::kGeluTanh:
      return g / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * u;
    case ActivationKind::kRelu2:
      return g > 0 ? g * g : 0;
    case ActivationKind::kSiluClamped:
      return low_g * sigmoid(low_g) * low_u;
    default:
      return (low_u + 1) * low_g * sigmoid(static_cast<double>(a.alpha) * low_g);
  }
}

TEST_P(Reference, ActivationsFollowTheirFormulas) {
  for (const Activation& activation : kActivations) {
    Block gate = random_block(random_, 2, 53, 9.0f), up = random_block(random_, 2, 53, 4.0f), out(2, 53);
    backend_->activate(gate.rows(), is_gated(activation) ? up.rows() : Rows{}, activation, out.rows());
    for (size_t i = 0; i < out.values.size(); ++i) {
      const double g = static_cast<double>(gate.values[i]), u = static_cast<double>(up.values[i]);
      ASSERT_NEAR(out.values[i], activated(activation, g, u), 4e-7 * (1 + std::abs(g)) * (1 + std::abs(u)))
          << static_cast<int>(activation.kind) << " of " << g << ", " << u;
    }
    backend_->activate(gate.rows(), up.rows(), activation, gate.rows());
    EXPECT_EQ(gate, out) << "in place";
  }
}

TEST_P(Reference, ActivationsShowNan) {
  for (const Activation& activation : kActivations) {
    Block gate(1, 2), up(1, 2), out(1, 2);
    gate.values = {NAN, 1.0f};
    up.values = {1.0f, NAN};
    backend_->activate(gate.rows(), up.rows(), activation, out.rows());
    EXPECT_TRUE(std::isnan(out.values[0]));
    EXPECT_EQ(std::isnan(out.values[1]), is_gated(activation));
  }
}

TEST_P(Reference, EveryGateCountsForItsRunOfElements) {
  for (int64_t gates : {1, 3, 51}) {
    Block x = random_block(random_, 2, 51), gate = random_block(random_, 2, gates, 8.0f), scaled = x;
    backend_->scale_by_sigmoid(scaled.rows(), gate.rows());
    for (int64_t r = 0; r < 2; ++r)
      for (int64_t i = 0; i < 51; ++i)
        ASSERT_NEAR(scaled.rows().row(r)[i],
                    static_cast<double>(x.rows().row(r)[i]) *
                        sigmoid(static_cast<double>(gate.rows().row(r)[i / (51 / gates)])),
                    2e-7)
            << gates << " gates";
  }
}

TEST_P(Reference, SiluOfExtremesHasNoOverflow) {
  Block gate(1, 5), up(1, 5), out(1, 5);
  gate.values = {-1000.0f, 1000.0f, -88.0f, 0.0f, -0x1.fffffep127f};
  up.values.assign(5, 1.0f);
  backend_->activate(gate.rows(), up.rows(), {}, out.rows());
  EXPECT_EQ(out.values, (std::vector<float>{0.0f, 1000.0f, out.values[2], 0.0f, 0.0f}));
  EXPECT_NEAR(out.values[2], 0.0, 1e-36);
}

TEST_P(Reference, AddAndClamp) {
  Block x = random_block(random_, 2, 21, 4.0f), y = random_block(random_, 2, 21, 4.0f);
  Block sum = x;
  backend_->add(sum.rows(), y.rows());
  Block clamped = sum;
  clamped.values[3] = NAN;
  backend_->clamp(clamped.rows(), 2.5f);
  for (size_t i = 0; i < x.values.size(); ++i) {
    ASSERT_EQ(sum.values[i], x.values[i] + y.values[i]);
    if (i != 3) {
      ASSERT_EQ(clamped.values[i], std::clamp(sum.values[i], -2.5f, 2.5f));
    }
  }
  EXPECT_TRUE(std::isnan(clamped.values[3])) << "a NaN must stay visible";
}

TEST_P(Reference, ScaledSumsProductsAndSoftCaps) {
  const Block x = random_block(random_, 2, 21, 90.0f);
  Block y = random_block(random_, 2, 21, 4.0f), sum = x, scaled = x, product = x, capped = x;
  backend_->add_scaled(sum.rows(), 0.22f, y.rows());
  backend_->scale(scaled.rows(), 0.22f);
  backend_->multiply_elements(product.rows(), y.rows());
  backend_->soft_cap(capped.rows(), 30.0f);
  for (size_t i = 0; i < x.values.size(); ++i) {
    const float part = 0.22f * y.values[i];
    ASSERT_EQ(sum.values[i], x.values[i] + part);
    ASSERT_EQ(scaled.values[i], x.values[i] * 0.22f);
    ASSERT_EQ(product.values[i], x.values[i] * y.values[i]);
    ASSERT_NEAR(capped.values[i], 30 * std::tanh(static_cast<double>(x.values[i]) / 30), 1e-5);
  }
}

TEST_P(Reference, RopeTurnsTheMiddleOfAHeadAndBack) {
  for (bool interleaved : {false, true}) {
    const int head_dim = 50, rotary = 36, first = 11;
    const std::vector<int32_t> positions = {1, 0, 2};
    Block x = random_block(random_, 3, 2 * head_dim), turned = x, slices(3, 2 * rotary);
    Block cosines(3, rotary / 2), sines(3, rotary / 2);
    for (size_t i = 0; i < cosines.values.size(); ++i) {
      cosines.values[i] = std::cos(static_cast<float>(i));
      sines.values[i] = std::sin(static_cast<float>(i));
    }
    const Rows heads = x.rows().reshaped(head_dim), by_slice = slices.rows().reshaped(rotary);
    for (int64_t h = 0; h < heads.rows; ++h) std::copy_n(heads.row(h) + first, rotary, by_slice.row(h));
    RopeTable table{interleaved, rotary, cosines.values.data(), sines.values.data()};
    backend_->rope(slices.rows(), rotary, positions, table);
    table.first = first;
    backend_->rope(turned.rows(), head_dim, positions, table);
    for (int64_t h = 0; h < heads.rows; ++h)
      for (int i = 0; i < head_dim; ++i) {
        const bool turns = i >= first && i < first + rotary;
        ASSERT_EQ(turned.rows().reshaped(head_dim).row(h)[i], turns ? by_slice.row(h)[i - first] : heads.row(h)[i]);
      }
    table.inverse = true;
    backend_->rope(turned.rows(), head_dim, positions, table);
    for (size_t i = 0; i < x.values.size(); ++i) ASSERT_NEAR(turned.values[i], x.values[i], 1e-6);
  }
}

TEST_P(Reference, RopeTurnsPairsAndLeavesTheRest) {
  for (bool interleaved : {false, true}) {
    for (int rotary : {6, 40, 64}) {
      const int head_dim = 64, heads = 3;
      const std::vector<int32_t> positions = {0, 9, 4};
      Block x = random_block(random_, 3, heads * head_dim), turned = x;
      Block cosines = random_block(random_, 10, rotary / 2), sines = random_block(random_, 10, rotary / 2);
      const RopeTable table{interleaved, rotary, cosines.values.data(), sines.values.data()};
      backend_->rope(turned.rows(), head_dim, positions, table);
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          const float* before = x.rows().row(r) + h * head_dim;
          const float* after = turned.rows().row(r) + h * head_dim;
          for (int i = 0; i < rotary / 2; ++i) {
            const int a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + rotary / 2;
            const float c = cosines.rows().row(positions[static_cast<size_t>(r)])[i];
            const float s = sines.rows().row(positions[static_cast<size_t>(r)])[i];
            ASSERT_NEAR(after[a], before[a] * c - before[b] * s, 1e-6);
            ASSERT_NEAR(after[b], before[b] * c + before[a] * s, 1e-6);
          }
          for (int i = rotary; i < head_dim; ++i) ASSERT_EQ(after[i], before[i]);
        }
      }
    }
  }
}

/// softmax(scale q k) v of one head over the first n of keys and values [positions, kv width].
std::vector<double> attend(const float* q, Rows keys, Rows values, int64_t column, int64_t d, int64_t n, double scale) {
  std::vector<double> p(static_cast<size_t>(n)), out(static_cast<size_t>(d));
  for (int64_t j = 0; j < n; ++j) p[static_cast<size_t>(j)] = scale * dot(q, keys.row(j) + column, d);
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& v : p) sum += v = std::exp(v - largest);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < d; ++i)
      out[static_cast<size_t>(i)] += p[static_cast<size_t>(j)] / sum * static_cast<double>(values.row(j)[column + i]);
  return out;
}

TEST_P(Reference, AttentionIsCausalGroupedAndSeesOnlyItsSegment) {
  for (int head_dim : {16, 24, 80}) {
    const int heads = 6, kv_heads = 2;
    const int64_t before[] = {0, 70, 150}, rows[] = {65, 1, 20};  // a prompt, a decode step, a later chunk
    Block q = random_block(random_, 86, heads * head_dim, 2.0f), out(86, heads * head_dim);
    std::vector<AttentionSegment> segments;
    std::vector<std::unique_ptr<Cache>> caches;
    std::vector<Block> keys, values;
    int64_t row = 0;
    for (size_t s = 0; s < 3; ++s) {
      const int64_t n = before[s] + rows[s];
      keys.push_back(random_block(random_, n, kv_heads * head_dim, 2.0f));
      values.push_back(random_block(random_, n, kv_heads * head_dim));
      caches.push_back(std::make_unique<Cache>(kv_heads, head_dim, 192));
      const AttentionSegment all{caches[s]->view, 0, n, 0};
      backend_->kv_append(keys[s].rows(), values[s].rows(), {&all, 1});
      segments.push_back({caches[s]->view, row, rows[s], before[s]});
      row += rows[s];
    }
    AttentionParams params;
    params.n_heads = heads;
    params.scale = 0.3f;
    backend_->attention(q.rows(), segments, params, out.rows());
    for (size_t s = 0; s < 3; ++s) {
      for (int64_t r = 0; r < rows[s]; ++r) {
        for (int h = 0; h < heads; ++h) {
          const int64_t column = h * head_dim, kv_column = h / (heads / kv_heads) * head_dim;
          const std::vector<double> expected = attend(q.rows().row(segments[s].first_row + r) + column, keys[s].rows(),
                                                      values[s].rows(), kv_column, head_dim, before[s] + r + 1, 0.3f);
          const float* got = out.rows().row(segments[s].first_row + r) + column;
          for (int i = 0; i < head_dim; ++i)
            ASSERT_NEAR(got[i], expected[static_cast<size_t>(i)], 3e-6)
                << "segment " << s << " row " << r << " head " << h;
        }
      }
    }
  }
}

TEST_P(Reference, AttentionSurvivesScoresThatGrowAndShrinkByHundreds) {
  const int64_t n = 200, d = 16;
  Block keys = random_block(random_, n, d, 100.0f), values = random_block(random_, n, d),
        q = random_block(random_, 1, d, 5.0f);
  for (int64_t j = 0; j < n; ++j)  // the largest scores come late, then fall again
    for (int64_t i = 0; i < d; ++i)
      keys.rows().row(j)[i] += static_cast<float>(j < 150 ? j : -j) * q.values[static_cast<size_t>(i)];
  Cache cache(1, d, 208);
  const AttentionSegment all{cache.view, 0, n, 0}, last{cache.view, 0, 1, n - 1};
  Block out(1, d);
  backend_->kv_append(keys.rows(), values.rows(), {&all, 1});
  backend_->attention(q.rows(), {&last, 1}, {1, 1.0f}, out.rows());
  const std::vector<double> expected = attend(q.values.data(), keys.rows(), values.rows(), 0, d, n, 1.0);
  for (int64_t i = 0; i < d; ++i)
    ASSERT_NEAR(out.values[static_cast<size_t>(i)], expected[static_cast<size_t>(i)], 1e-3);
}

// One key, so the probability is 1 and attention gives back what the cache kept of the value.
TEST_P(Reference, CachedValuesAreRoundedToNearestEven) {
  for (int head_dim : {32, 72, 80}) {
    for (int trial = 0; trial < 40; ++trial) {
      const float size = std::ldexp(1.0f, static_cast<int>(random_.below(40)) - 24);  // around every kind of half
      Block kv = random_block(random_, 1, head_dim, size), out(1, head_dim);
      for (KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
        Cache cache(type, 1, head_dim, 1);
        const AttentionSegment s{cache.view, 0, 1, 0};
        backend_->kv_append(kv.rows(), kv.rows(), {&s, 1});
        backend_->attention(kv.rows(), {&s, 1}, {1, 1.0f}, out.rows());
        for (size_t i = 0; i < out.values.size(); ++i) {
          const float x = kv.values[i];
          float expected = x;
          if (type == KvType::kF16) expected = f16_to_f32(f32_to_f16(std::clamp(x, -65504.0f, 65504.0f)));
          if (type == KvType::kQ8) {
            float largest = 0;
            for (size_t j = i / 32 * 32; j < std::min(i / 32 * 32 + 32, out.values.size()); ++j)
              largest = std::max(largest, std::abs(kv.values[j]));
            const float scale = f16_to_f32(f32_to_f16(largest / 127.0f));
            const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
            expected = scale * std::nearbyint(std::clamp(x * inverse, -127.0f, 127.0f));
            ASSERT_LE(std::abs(out.values[i] - x), 0.51f * scale + largest / 1000.0f + 0x1p-18f);
          }
          ASSERT_EQ(out.values[i], expected) << name(type) << " " << x;
        }
      }
    }
  }
}

// 256 more keys than fit a tile: errors of the cached numbers average out and stay far below the numbers.
TEST_P(Reference, AttentionOverRoundedCachesStaysCloseToF32) {
  const int heads = 8, kv_heads = 2, head_dim = 64;
  const int64_t n = 320, rows = 3;
  Block keys = random_block(random_, n, kv_heads * head_dim, 2.0f), q = random_block(random_, rows, heads * head_dim);
  Block values = random_block(random_, n, kv_heads * head_dim), exact(rows, q.width);
  for (const auto& [type, bound] : {std::pair{KvType::kF32, 0.0f}, {KvType::kF16, 5e-4f}, {KvType::kQ8, 1e-2f}}) {
    Cache cache(type, kv_heads, head_dim, n);
    const AttentionSegment all{cache.view, 0, n, 0}, last{cache.view, 0, rows, n - rows};
    Block out(rows, q.width);
    backend_->kv_append(keys.rows(), values.rows(), {&all, 1});
    backend_->attention(q.rows(), {&last, 1}, {heads, 0.5f}, out.rows());
    if (type == KvType::kF32) exact = out;
    bool differs = false;
    for (size_t i = 0; i < out.values.size(); ++i) {
      ASSERT_NEAR(out.values[i], exact.values[i], bound) << name(type);
      differs |= out.values[i] != exact.values[i];
    }
    EXPECT_EQ(differs, type != KvType::kF32) << name(type);
  }
}

TEST_P(Reference, ANumberBeyondTheLargestHalfDoesNotReachEarlierRows) {
  const int head_dim = 32;
  for (KvType type : {KvType::kF16, KvType::kQ8}) {
    Block kv = random_block(random_, 2, head_dim), out(2, head_dim);
    kv.values[head_dim] = 1e8f;
    Cache cache(type, 1, head_dim, 2);
    const AttentionSegment s{cache.view, 0, 2, 0};
    backend_->kv_append(kv.rows(), kv.rows(), {&s, 1});
    backend_->attention(kv.rows(), {&s, 1}, {1, 1e-6f}, out.rows());
    for (int i = 0; i < head_dim; ++i)
      ASSERT_NEAR(out.values[static_cast<size_t>(i)], kv.values[static_cast<size_t>(i)], 0.01f);
    EXPECT_TRUE(std::isfinite(out.rows().row(1)[0]));
  }
}

TEST_P(Reference, RouteIsAStableSortOfTheSoftmax) {
  RouterParams params;
  params.n_experts = 13;
  params.top_k = 5;
  for (bool renormalise : {false, true}) {
    params.renormalise = renormalise;
    params.scale = renormalise ? 2.5f : 1.0f;
    Block logits = random_block(random_, 40, 13, 3.0f);
    for (float& v : logits.values) v = std::round(v);  // many ties
    std::vector<int32_t> ids(200);
    std::vector<float> weights(200);
    backend_->route(logits.rows(), params, ids.data(), weights.data());
    for (int64_t r = 0; r < 40; ++r) {
      const float* row = logits.rows().row(r);
      std::vector<int32_t> order(13);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
      double all = 0, chosen = 0;
      for (int e = 0; e < 13; ++e) all += std::exp(static_cast<double>(row[e]));
      for (size_t j = 0; j < 5; ++j) chosen += std::exp(static_cast<double>(row[order[j]])) / all;
      for (size_t j = 0; j < 5; ++j) {
        const size_t at = static_cast<size_t>(r) * 5 + j;
        ASSERT_EQ(ids[at], order[j]);
        const double p = std::exp(static_cast<double>(row[order[j]])) / all;
        ASSERT_NEAR(weights[at], renormalise ? 2.5 * p / chosen : p, 1e-6);
      }
    }
  }
}

TEST_P(Reference, RouteOfNanLogitsStillGivesDifferentExperts) {
  Block logits = random_block(random_, 1, 8);
  logits.values[2] = NAN;
  RouterParams params;
  params.n_experts = 8;
  params.top_k = 4;
  std::vector<int32_t> ids(4, -1);
  std::vector<float> weights(4);
  backend_->route(logits.rows(), params, ids.data(), weights.data());
  std::sort(ids.begin(), ids.end());
  EXPECT_TRUE(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  EXPECT_GE(ids.front(), 0);
  EXPECT_LT(ids.back(), 8);
}

/// What an expert makes of a row, and in `size` the sum of the magnitudes that it adds up to.
double expert_output(RandomExperts& experts, size_t e, const float* hidden, int64_t column, double* size) {
  Block& down = experts.matrices[3 * e + 2].dense;
  const float* w = down.rows().row(column);
  const double bias =
      experts.biases.empty() ? 0 : static_cast<double>(experts.biases[3 * e + 2].values[static_cast<size_t>(column)]);
  *size = std::abs(bias);
  for (int64_t i = 0; i < down.width; ++i)
    *size += std::abs(static_cast<double>(hidden[i]) * static_cast<double>(w[i]));
  return dot(hidden, w, down.width) + bias;
}

Block expert_hidden(RandomExperts& experts, size_t e, const Activation& activation, const float* x, double factor) {
  Weights &gate = experts.matrices[3 * e], &up = experts.matrices[3 * e + 1];
  const int64_t width = up.packed.n, k = up.packed.k;
  Block hidden(1, width);
  for (int64_t i = 0; i < width; ++i) {
    const auto value = [&](Weights& w, size_t which) {
      const double bias = experts.biases.empty()
                              ? 0
                              : static_cast<double>(experts.biases[3 * e + which].values[static_cast<size_t>(i)]);
      return factor * dot(x, w.dense.rows().row(i), k) + bias;
    };
    const double u = value(up, 1), g = is_gated(activation) ? value(gate, 0) : u;
    hidden.values[static_cast<size_t>(i)] = static_cast<float>(activated(activation, g, u));
  }
  return hidden;
}

void expect_weighted_sums(Backend& backend, Random& random, const ExpertParams& params, bool biased) {
  const int64_t hidden = 64, width = 32, rows = 30, n_experts = 9, top_k = params.top_k;
  const int64_t n_ids = n_experts - 1 + params.n_identity;
  RandomExperts experts(random, n_experts, hidden, width, is_gated(params.activation), biased);
  Block x = random_block(random, rows, hidden), out(rows, hidden), mix = random_block(random, rows, top_k);
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < top_k; ++j) {
      const auto id = static_cast<int32_t>((r * r + 3 * j + 5) % n_ids);
      ids.push_back(id < n_experts - 1 ? id : id + 1);
    }
  experts.pointers.back() = nullptr;  // nobody chose the last one that has weights
  backend.experts(x.rows(), ids.data(), mix.values.data(), params, experts.pointers, out.rows());
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> expected(hidden), sizes(hidden, 1);
    for (int64_t j = 0; j < top_k; ++j) {
      const auto e = static_cast<size_t>(ids[static_cast<size_t>(r * top_k + j)]);
      const double weight = static_cast<double>(mix.rows().row(r)[j]);
      const bool identity = e >= static_cast<size_t>(n_experts), on_input = params.weight_on_input && !identity;
      Block h;
      if (!identity) h = expert_hidden(experts, e, params.activation, x.rows().row(r), on_input ? weight : 1);
      for (int64_t i = 0; i < hidden; ++i) {
        double size = 1;
        const double output =
            identity ? static_cast<double>(x.rows().row(r)[i]) : expert_output(experts, e, h.values.data(), i, &size);
        expected[static_cast<size_t>(i)] += (on_input ? 1 : weight) * output;
        sizes[static_cast<size_t>(i)] += size;
      }
    }
    for (int64_t i = 0; i < hidden; ++i)
      ASSERT_NEAR(out.rows().row(r)[i], expected[static_cast<size_t>(i)], 1e-5 * sizes[static_cast<size_t>(i)])
          << "row " << r << ", activation " << static_cast<int>(params.activation.kind);
  }
}

TEST_P(Reference, ExpertsAreTheWeightedSumOfTheirFeedForwards) {
  for (const Activation& activation : kActivations)
    for (bool biased : {false, true}) expect_weighted_sums(*float_backend_, random_, {3, activation}, biased);
}

TEST_P(Reference, ExpertsMayBeTheIdentityAndMayWeighTheirInputs) {
  expect_weighted_sums(*float_backend_, random_, {3, {}, false, 4}, false);
  expect_weighted_sums(*float_backend_, random_, {1, {}, true}, false);
  expect_weighted_sums(*float_backend_, random_, {3, kActivations[2], true, 2}, false);
}

}  // namespace
}  // namespace colibri::compute
