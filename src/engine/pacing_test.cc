#include "engine/pacing.h"

#include <gtest/gtest.h>

namespace colibri::engine {
namespace {

constexpr auto kMixer = model::Piece::kMixer, kExperts = model::Piece::kExperts;

// A part of the experts takes 10 ms and 0.1 ms per row, a mixer half of it.
constexpr int kParts = 4;
double part_seconds(int64_t rows) { return 0.010 + 0.0001 * static_cast<double>(rows); }
double pass_seconds(int64_t rows) { return 12 * (kParts + 0.5) * part_seconds(rows); }

Pacing measured(double share, double decode_seconds) {
  Pacing pacing(share, 512, kParts);
  for (int64_t rows = 32; rows <= 512; rows *= 2) {
    pacing.ran(rows, kExperts, false, part_seconds(rows));
    pacing.ran(rows, kMixer, false, part_seconds(rows) / 2);
    pacing.pass_ran(rows, pass_seconds(rows));
  }
  pacing.decoded(decode_seconds);
  return pacing;
}

TEST(Pacing, NobodyDecodesAPassIsAsLongAsThePlanAllows) {
  EXPECT_EQ(measured(0.5, 0.010).pass_rows(false), 512);
  EXPECT_EQ(Pacing(0.5, 7, kParts).pass_rows(false), 7);
}

TEST(Pacing, APieceOfAPassFitsTheShareOfTheDecodePass) {
  const Pacing pacing = measured(0.5, 0.080);  // a slice of 40 ms
  const int64_t rows = pacing.pass_rows(true);
  EXPECT_EQ(rows, 256);
  EXPECT_TRUE(pacing.fits(rows, kExperts, 0));
  EXPECT_FALSE(pacing.fits(rows, kExperts, part_seconds(rows)));
}

TEST(Pacing, TheRestOfASliceIsForTheShorterPiece) {
  const Pacing pacing = measured(0.5, 0.160);  // a slice of 80 ms, a part of 61.2
  EXPECT_TRUE(pacing.fits(512, kMixer, 0.045));
  EXPECT_FALSE(pacing.fits(512, kExperts, 0.045));
}

TEST(Pacing, AShortPieceGoesWithOneThatIsLongerThanASlice) {
  Pacing disk(0.5, 64, 1);
  disk.ran(64, kExperts, false, 0.200);
  disk.ran(64, kMixer, false, 0.010);
  disk.decoded(0.100);
  EXPECT_TRUE(disk.fits(64, kExperts, 0.010));
  EXPECT_FALSE(disk.fits(64, kExperts, 0.200));
}

TEST(Pacing, SeveralPiecesRunWhereTheyFit) {
  const Pacing pacing = measured(2, 0.100);
  EXPECT_EQ(pacing.pass_rows(true), 512);
  EXPECT_TRUE(pacing.fits(512, kExperts, 2 * part_seconds(512)));
  EXPECT_FALSE(pacing.fits(512, kExperts, 3 * part_seconds(512)));
}

TEST(Pacing, TheFewestRowsWhereEvenTheyTakeLongerAndMoreThatCostTheSame) {
  EXPECT_EQ(measured(0.5, 0.010).pass_rows(true), 64);  // 13.2 ms, and 16.4 ms are about the same
  Pacing disk(0.5, 512, 1);                             // every pass waits for the disk: rows hardly matter
  for (int64_t rows = 32; rows <= 512; rows *= 2) disk.ran(rows, kExperts, true, 0.200);
  disk.decoded(0.010);
  EXPECT_EQ(disk.pass_rows(true), 512);
}

TEST(Pacing, WhatWasNotMeasuredIsExpectedFromItsNeighbour) {
  Pacing pacing(1, 512, kParts);
  pacing.decoded(0.030);
  EXPECT_EQ(pacing.pass_rows(true), 32);
  pacing.ran(32, kExperts, true, kParts * 0.010);
  EXPECT_EQ(pacing.pass_rows(true), 128);  // 25 ms expected; 45 ms for 256
}

TEST(Pacing, PromptsThatPileUpGetMore) {
  Pacing pacing = measured(0.5, 0.080);
  EXPECT_FALSE(pacing.fits(256, kExperts, part_seconds(256)));
  pacing.waiting(4000, {1, 8});  // 26 s of them
  EXPECT_TRUE(pacing.fits(256, kExperts, part_seconds(256)));
  pacing.waiting(0, {0, 8});
  EXPECT_FALSE(pacing.fits(256, kExperts, part_seconds(256)));
}

TEST(Pacing, ManyWhoWaitForTheirPromptsAndFewWhoDecodeGetMore) {
  Pacing pacing = measured(0.5, 0.080);
  pacing.waiting(0, {1, 8});
  EXPECT_FALSE(pacing.fits(256, kExperts, part_seconds(256)));
  pacing.waiting(0, {5, 3});
  EXPECT_TRUE(pacing.fits(256, kExperts, part_seconds(256)));
  pacing.waiting(0, {63, 1});  // a slice of 160 ms, and no more
  EXPECT_FALSE(pacing.fits(256, kExperts, 4 * part_seconds(256)));
}

TEST(Pacing, ARowCostsWhatItCostsInTheBestPass) {
  EXPECT_DOUBLE_EQ(measured(1, 0.010).seconds_per_row(), pass_seconds(512) / 512);
  EXPECT_EQ(Pacing(1, 512, kParts).seconds_per_row(), 0);
}

}  // namespace
}  // namespace colibri::engine
