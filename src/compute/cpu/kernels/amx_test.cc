// The kernels of the level amx over emulated tiles, on every processor with AVX-512 VNNI: equal to scalar bit by bit.
// Where the processor has tiles, equality_test.cc runs the real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "compute/cpu/kernels/kernel_table.h"
#include "compute/cpu/kernels/tiles_emulated.h"
#include "compute/cpu/random_data.h"
#include "compute/cpu/tiling.h"
#include "platform/cpu.h"
#include "tensor/unpack.h"

namespace colibri::compute {

extern const KernelTable kAmxEmulatedKernels;

namespace {

/// Activations as strips. Rows come in any order, as those of an expert do.
struct Strips {
  std::vector<ActivationStrip> strips;
  std::vector<const ActivationStrip*> rows;

  Strips(Random& random, Block& x) {
    const int64_t n = x.rows().rows, each = (x.width + kStripWidth - 1) / kStripWidth;
    strips.resize(static_cast<size_t>(n * each));
    for (int64_t r = 0; r < n; ++r) kScalarKernels.quantise(x.rows().row(r), x.width, strips.data() + r * each);
    for (int64_t r = 0; r < n; ++r) rows.push_back(strips.data() + random.below(n) * each);
  }
};

/// The output of one table, with columns around it that must stay as they are.
Block multiply(const KernelTable& kernels, const Strips& x, const PackedMatrix& w, const float* bias) {
  constexpr int64_t kMargin = 3;
  const auto rows = static_cast<int64_t>(x.rows.size());
  Block out(rows, w.n + 2 * kMargin);
  std::fill(out.values.begin(), out.values.end(), 99.0f);
  std::vector<float> sums(static_cast<size_t>(rows * kMaxDotPanels * kLanes));
  const auto tiles = std::make_unique<TileScratch>();
  std::fill_n(&tiles->rows[0][0], sizeof tiles->rows, int8_t{-77});
  ProductJob job;
  job.x = x.rows.data();
  job.rows = rows;
  job.k = w.k;
  job.panels = w.data;
  job.panel_stride = panel_bytes(w.encoding, w.k);
  job.n = w.n;
  job.bias = bias;
  job.c = out.values.data() + kMargin;
  job.c_stride = out.width;
  job.sums = sums.data();
  job.tiles = tiles.get();
  if (is_blocks(w.encoding)) job.expand = strip_expander(w.encoding);
  if (is_blocks(w.encoding)) job.strip_stride = strip_bytes(w.encoding, kStripInputs);
  kernels.product[product_index(w.encoding)](&job);
  return out;
}

class Amx : public testing::Test {
 protected:
  void SetUp() override {
    if (!platform::cpu_features().avx512_vnni) GTEST_SKIP() << "no AVX-512 VNNI";
  }
  static void expect_equal(Random& random, Block& x, const Weights& w, const float* bias) {
    const Strips strips(random, x);
    ASSERT_EQ(multiply(kAmxEmulatedKernels, strips, w.packed, bias), multiply(kScalarKernels, strips, w.packed, bias))
        << name(w.packed.encoding) << ": " << x.rows().rows << " rows, n " << w.packed.n << ", k " << w.packed.k;
  }
  static void expect_equal(Random& random, Encoding encoding, int64_t rows) {
    const int64_t n = 1 + random.below(60), k = random_inputs(random, encoding);
    const Weights w = random_weights(random, encoding, n, k);
    Block x = random_block(random, rows, k), bias = random_block(random, 1, n);
    expect_equal(random, x, w, rows % 2 == 0 ? bias.values.data() : nullptr);
  }
};

TEST_F(Amx, EveryEncodingAndRowCountGivesTheBitsOfScalar) {
  Random random(21);
  for (Encoding encoding : kEncodings)
    for (int64_t rows = 1; has_codes(encoding) && rows <= 70; rows += is_blocks(encoding) ? 23 : COLIBRI_TEST_STEP)
      expect_equal(random, encoding, rows);
}

TEST_F(Amx, RowsUpToTheLimitOfTheScratchGiveTheBitsOfScalar) {
  Random random(22);
  for (Encoding encoding : {Encoding::kMXFP4, Encoding::kQ5_1, Encoding::kQ5_K, Encoding::kQ6_K, Encoding::kQ2_K})
    for (int64_t rows : {97, 113, 127, kMaxTiledRows}) expect_equal(random, encoding, rows);
}

// Codes and activations at the ends of their ranges: parts of products that did not fit a byte would show.
TEST_F(Amx, ExtremeNumbersGiveTheBitsOfScalar) {
  Random random(23);
  for (Encoding encoding : kEncodings)
    for (int byte : {0x00, 0x7f, 0x80, 0xff}) {
      if (!has_codes(encoding)) continue;
      const Weights w = random_weights(random, encoding, 20, 512, byte);
      Block x(8 + random.below(30), 512);
      for (float& v : x.values) v = random.below(8) == 0 ? -1.0f : 1.0f;
      expect_equal(random, x, w, nullptr);
    }
}

TEST(AmxEmulationDeathTest, RefusesWhatTheProcessorWouldFaultOn) {
  int32_t sums[kTileInts] = {};
  TileConfig too_high = tile_config(16, 64), reserved = too_high, unfit = too_high;
  too_high.rows[0] = 17;
  reserved.reserved[3] = 1;
  unfit.rows[kWeightTile] = 8;
  EXPECT_DEATH(tile_zero<0>(), "no configuration");
  EXPECT_DEATH(tile_configure(too_high), "too many rows");
  EXPECT_DEATH(tile_configure(reserved), "reserved");
  EXPECT_DEATH((tile_configure(unfit), tile_dot<false, kSumTile, kRowTile, kWeightTile>()), "shapes do not fit");
  EXPECT_DEATH((tile_configure(kConfigs64.of_height[3]), tile_dot<false, 0, 0, kWeightTile>()), "with itself");
  EXPECT_DEATH((tile_configure(kConfigs32.of_height[3]), tile_release(), tile_store<0>(sums, 64)), "no configuration");
}

// What products mean is stated once more, by hand, so that the emulation itself is checked.
TEST(AmxEmulation, MultipliesSignedRowsWithWeightsOfBothKinds) {
  const int8_t rows[2][32] = {{-128, 2, 3, 4, 5}, {127}};
  const uint8_t weights[8][64] = {{255, 1, 2, 3, 10}, {128, 0, 0, 0, 1}};
  int32_t sums[2][16];
  tile_configure(kConfigs32.of_height[2]);
  tile_load<kRowTile>(rows, 32);
  tile_load<kWeightTile>(weights, 64);
  tile_dot<false, 0, kRowTile, kWeightTile>();
  tile_dot<true, 1, kRowTile, kWeightTile>();
  tile_store<0>(sums, 64);
  EXPECT_EQ(sums[0][0], -128 * 255 + 2 * 1 + 3 * 2 + 4 * 3 + 5 * 128);
  EXPECT_EQ(sums[0][1], -128 * 10 + 5 * 1);
  EXPECT_EQ(sums[1][0], 127 * 255);
  tile_store<1>(sums, 64);
  EXPECT_EQ(sums[0][0], -128 * -1 + 2 * 1 + 3 * 2 + 4 * 3 + 5 * -128);
  EXPECT_EQ(sums[1][0], 127 * -1);
  tile_release();
}

}  // namespace
}  // namespace colibri::compute
