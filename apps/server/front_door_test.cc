#include "front_door.h"

#include <gtest/gtest.h>

namespace colibri::server {
namespace {

// Who a request from `address` counts for, when it brings these X-Forwarded-For headers.
std::string client_of(const std::string& address, const std::vector<std::string>& forwarded) {
  Router router;
  Route route;
  route.method = "GET";
  route.path = "/health";
  router.add(route);
  const ApiKeys no_keys;
  DoorRules rules;
  rules.trusted_proxies = {"10.0.0.1", "10.0.0.2", "unix"};
  FrontDoor door(router, no_keys, rules);
  HttpRequest head;
  head.method = "GET";
  head.path = "/health";
  head.client = address;
  head.headers.emplace_back("host", "localhost");
  for (const std::string& list : forwarded) head.headers.emplace_back("x-forwarded-for", list);
  EXPECT_FALSE(door.enter(head, false).answer);
  return head.client;
}

TEST(FrontDoor, BelievesOnlyTrustedProxiesWhoTheClientIs) {
  EXPECT_EQ(client_of("9.9.9.9", {"1.2.3.4"}), "9.9.9.9");
  EXPECT_EQ(client_of("10.0.0.1", {"1.2.3.4"}), "1.2.3.4");
  EXPECT_EQ(client_of("unix", {"2001:db8::7"}), "2001:db8::7");
  EXPECT_EQ(client_of("10.0.0.1", {}), "10.0.0.1");
}

TEST(FrontDoor, TakesTheLastClientThatNoProxyIs) {
  EXPECT_EQ(client_of("10.0.0.1", {"6.6.6.6, 1.2.3.4, 10.0.0.2"}), "1.2.3.4");
  EXPECT_EQ(client_of("10.0.0.1", {"6.6.6.6", "1.2.3.4"}), "1.2.3.4");
  EXPECT_EQ(client_of("10.0.0.1", {"1.2.3.4, somebody"}), "10.0.0.1");
}

}  // namespace
}  // namespace colibri::server
