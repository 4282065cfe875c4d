#include "platform/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "platform/memory_speed.h"

namespace colibri::platform {
namespace {

TEST(Arena, HandsOutAlignedPiecesThatDoNotOverlap) {
  auto arena = Arena::allocate(aligned_bytes(100) + aligned_bytes(1) + 64);
  ASSERT_TRUE(arena.ok());
  std::byte* a = arena->take(100);
  std::byte* b = arena->take(1);
  std::byte* c = arena->take(64);
  EXPECT_EQ(b - a, 128);
  EXPECT_EQ(c - b, 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 4096, 0u);
  EXPECT_EQ(arena->used_bytes(), 256);
  EXPECT_EQ(*a, std::byte{0});
  std::memset(a, 1, 256);
}

TEST(Arena, LargeOnesLieOnHugePageBordersAndAreUsableToTheLastByte) {
  const int64_t bytes = (int64_t{9} << 20) + 5;
  auto arena = Arena::allocate(bytes);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % (2 << 20), 0u);
  ASSERT_GE(arena->size_bytes(), bytes);
  arena->data()[0] = arena->data()[arena->size_bytes() - 1] = std::byte{1};
  Arena moved = std::move(*arena);
  EXPECT_EQ(moved.data()[0], std::byte{1});
  EXPECT_EQ(arena->data(), nullptr);
}

TEST(Arena, TheImpossibleIsAnErrorWithNumbers) {
  for (int64_t bytes : {int64_t{1} << 60, std::numeric_limits<int64_t>::max()}) {
    const auto arena = Arena::allocate(bytes);
    ASSERT_FALSE(arena.ok());
    EXPECT_EQ(arena.error().code, ErrorCode::kDoesNotFit);
    EXPECT_NE(arena.error().message.find(std::to_string(bytes)), std::string::npos) << arena.error().message;
  }
  EXPECT_TRUE(Arena::allocate(0).ok());
}

// Page faults of this process so far.
int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

// Without the memory that a sanitizer keeps beside, which would fault.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) void touch(std::byte* data, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 512) static_cast<volatile std::byte*>(data)[i] = std::byte{1};
}

TEST(Arena, PagesThatComeAtOnceDoNotFaultLater) {
  for (const int64_t bytes : {int64_t{3} << 20, (int64_t{9} << 20) + 5}) {
    auto arena = Arena::allocate(bytes);
    ASSERT_TRUE(arena.ok());
    const int64_t before = page_faults();
    touch(arena->data(), bytes);
    const int64_t faults = page_faults() - before;
    EXPECT_LE(faults, 4) << bytes;  // the program's own pages
  }
}

TEST(Arena, WhatIsResidentIsWhatWasAskedFor) {
  const int64_t bytes = (int64_t{8} << 20) + 4096;
  const int64_t before = rss_bytes();
  ASSERT_GT(before, 0);
  const auto later = Arena::allocate(bytes, Pages::kOnFirstTouch);
  EXPECT_LT(rss_bytes() - before, int64_t{1} << 20);
  const auto now = Arena::allocate(bytes);
  EXPECT_NEAR(static_cast<double>(rss_bytes() - before), static_cast<double>(bytes), 1 << 20);
}

TEST(ArenaDeathTest, TakingTooMuchIsAProgrammingError) {
  auto arena = Arena::allocate(4096);
  arena->take(4000);
  EXPECT_DEATH(arena->take(100), "internal error");
}

TEST(Memory, PeakRssSeesWhatWasTouched) {
  const int64_t before = rss_bytes();
  EXPECT_GT(before, 0);
  EXPECT_GE(peak_rss_bytes(), before);
  auto arena = Arena::allocate(int64_t{64} << 20);
  std::memset(arena->take(int64_t{64} << 20), 1, size_t{64} << 20);
  EXPECT_GE(peak_rss_bytes(), before + (int64_t{60} << 20));
  EXPECT_LT(peak_rss_bytes(), int64_t{1} << 50);
}

TEST(Memory, SomethingIsAvailable) {
  EXPECT_GT(available_memory_bytes(), int64_t{1} << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

TEST(Memory, HeadroomIsThatOfThisMachine) {
  EXPECT_GT(memory_headroom_bytes(), int64_t{1} << 20);
  EXPECT_LT(memory_headroom_bytes(), int64_t{1} << 50);
}

TEST(Memory, ReadingItIsMeasuredAndGivenBack) {
  const int64_t before = rss_bytes();
  for (const int threads : {1, 3}) {
    const auto speed = measure_memory_read(threads);
    ASSERT_TRUE(speed.ok()) << speed.error().message;
    EXPECT_GT(*speed, 0);
    EXPECT_LT(*speed, 1e14);
  }
  EXPECT_LT(rss_bytes() - before, int64_t{8} << 20);
}

}  // namespace
}  // namespace colibri::platform
