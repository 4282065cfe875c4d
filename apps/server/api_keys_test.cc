#include "api_keys.h"

#include <gtest/gtest.h>

#include "client_limits.h"

namespace colibri::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ApiKeys, AreOnePerLineWithOrWithoutAName) {
  const auto keys = parse_api_keys("# comment\r\n  alice:sk-abcdefgh \n\nsk-12345678\nbob:a:b:c:d:e", "keys");
  ASSERT_TRUE(keys) << keys.error().message;
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_EQ((*keys)[0].name + "=" + (*keys)[0].key, "alice=sk-abcdefgh");
  EXPECT_EQ((*keys)[1].name + "=" + (*keys)[1].key, "key-4=sk-12345678");
  EXPECT_EQ((*keys)[2].name + "=" + (*keys)[2].key, "bob=a:b:c:d:e");
}

TEST(ApiKeys, BadLinesAreNamedButNeverShown) {
  for (const std::string bad :
       {"short", ":12345678", "a b:12345678", "name:has blanks", "x:\x01secret12", "k\xc3\xa4:12345678", "a:"}) {
    const auto keys = parse_api_keys("good:12345678\n" + bad + "\n", "keys");
    ASSERT_FALSE(keys) << bad;
    EXPECT_TRUE(keys.error().message.starts_with("keys:2: ")) << keys.error().message;
    EXPECT_EQ(keys.error().message.find(bad), std::string::npos) << keys.error().message;
  }
  EXPECT_FALSE(parse_api_keys("a:" + std::string(513, 'k'), "keys"));
  EXPECT_TRUE(parse_api_keys("a:" + std::string(512, 'k'), "keys"));
}

TEST(ApiKeys, AFileWithoutKeysOpensNothing) {
  for (const char* text : {"", "\n\n", "# sk-12345678"}) EXPECT_FALSE(parse_api_keys(text, "keys")) << text;
}

HttpRequest with(const char* name, const char* value) {
  HttpRequest request;
  request.headers = {{name, value}};
  return request;
}

TEST(ApiKeys, StandInOneOfThreeHeaders) {
  EXPECT_EQ(key_of(with("authorization", "Bearer abc")), "abc");
  EXPECT_EQ(key_of(with("authorization", "BEARER  abc")), "abc");
  EXPECT_EQ(key_of(with("x-api-key", "abc")), "abc");
  EXPECT_EQ(key_of(with("api-key", "abc")), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc"})
    EXPECT_EQ(key_of(with("authorization", none)), "") << none;
}

TEST(ClientLimits, CountWhatRunsAtATime) {
  ClientLimits limits(2, 0);
  const auto now = ClientLimits::Clock::now();
  auto first = limits.enter("a", now), second = limits.enter("a", now);
  EXPECT_TRUE(first.admitted && second.admitted);
  const auto third = limits.enter("a", now);
  EXPECT_FALSE(third.admitted);
  EXPECT_EQ(third.retry_after_s, 1);
  EXPECT_TRUE(limits.enter("b", now).admitted);
  first.place.reset();
  EXPECT_TRUE(limits.enter("a", now).admitted);
}

TEST(ClientLimits, AllowABurstAndThenASteadyRate) {
  ClientLimits limits(0, 6);
  auto now = ClientLimits::Clock::now();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(limits.enter("a", now).admitted);
  EXPECT_EQ(limits.enter("a", now).retry_after_s, 10);
  now += milliseconds(9999);
  EXPECT_FALSE(limits.enter("a", now).admitted);
  now += milliseconds(1);
  EXPECT_TRUE(limits.enter("a", now).admitted);
  now += seconds(3600);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(limits.enter("a", now).admitted);
  EXPECT_FALSE(limits.enter("a", now).admitted);
}

TEST(ClientLimits, ForgetClientsThatAreGone) {
  ClientLimits limits(1, 1);
  auto now = ClientLimits::Clock::now();
  const auto held = limits.enter("held", now);
  for (int i = 0; i < 100000; ++i, now += milliseconds(100)) limits.enter(std::to_string(i), now);
  EXPECT_LT(limits.clients(), 3000u);
  EXPECT_FALSE(limits.enter("held", now).admitted);
}

}  // namespace
}  // namespace colibri::server
