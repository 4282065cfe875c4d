#include "engine/token_stream.h"

#include <gtest/gtest.h>

#include <thread>

namespace colibri::engine {
namespace {

TEST(TokenStream, EventsArriveInOrderAcrossThreadsAndNeverExceedTheCapacity) {
  TokenStream stream(4);
  constexpr int kEvents = 2000;
  std::thread producer([&stream] {
    for (int i = 0; i < kEvents; ++i) {
      while (!stream.has_room()) std::this_thread::yield();
      TokenEvent event;
      event.token = i;
      stream.push(event);
    }
  });
  for (int i = 0; i < kEvents; ++i) {
    TokenEvent event;
    ASSERT_TRUE(stream.pop(-1, event));
    EXPECT_EQ(event.token, i);
  }
  producer.join();
}

TEST(TokenStream, AnEmptyStreamTimesOut) {
  TokenStream stream(4);
  TokenEvent event;
  EXPECT_FALSE(stream.pop(1, event));
}

TEST(TokenStream, RoomForTheEndIsKept) {
  TokenStream stream(2);
  EXPECT_TRUE(stream.has_room());
  stream.push({});
  EXPECT_FALSE(stream.has_room());
  TokenEvent end;
  end.kind = EventKind::kEnd;
  stream.push(end);
}

}  // namespace
}  // namespace colibri::engine
