#include "http_text.h"

#include <gtest/gtest.h>

#include "errors.h"
#include "router.h"

namespace colibri::server {
namespace {

std::string path_of(std::string_view target) {
  const auto parsed = parse_target(target);
  return parsed ? parsed->path + "?" + parsed->query : "refused";
}

TEST(Target, IsSplitAndDecoded) {
  EXPECT_EQ(path_of("/v1/models"), "/v1/models?");
  EXPECT_EQ(path_of("/a%20b?x=%20&y"), "/a b?x=%20&y");
  EXPECT_EQ(path_of("/a?b?c#d"), "/a?b?c");
  EXPECT_EQ(path_of("http://host:1/a?b"), "/a?b");
  EXPECT_EQ(path_of("http://host"), "/?");
  EXPECT_EQ(path_of("https://host?b"), "/?b");
  EXPECT_EQ(path_of("*"), "*?");
  EXPECT_EQ(path_of("/..a/b..%2e"), "/..a/b...?");
}

TEST(Target, IsRefusedWhenItIsNoPath) {
  for (const char* bad : {"", "v1", "?x", "/%", "/%4", "/%zz", "/%00", "/%0a", "/..", "/../a", "/a/..", "/a/%2e%2E/b",
                          "/%2e./a", "ftp://host/a", "host:80"})
    EXPECT_EQ(path_of(bad), std::string_view(bad) == "?x" ? "/?x" : "refused") << bad;
}

TEST(HostName, IsTakenFromTheHeader) {
  EXPECT_EQ(host_name("LocalHost:8080"), "localhost");
  EXPECT_EQ(host_name("example."), "example");
  EXPECT_EQ(host_name("[::1]:8080"), "::1");
  EXPECT_EQ(host_name("[::1]"), "::1");
  EXPECT_EQ(host_name("10.0.0.1:"), "10.0.0.1");
  for (const char* bad : {"", ":80", "a b", "a/b", "user@host", "[::1", "[::1]x", "::1", "host:x", "host:65536",
                          "host:-1", "a,b", "[]", "."})
    EXPECT_EQ(host_name(bad), std::nullopt) << bad;
}

TEST(HostName, AddressesAndLoopbackNamesAreTold) {
  for (const char* address : {"127.0.0.1", "10.1.2.3", "::1", "fe80::1%eth0"})
    EXPECT_TRUE(is_address(address)) << address;
  for (const char* name : {"localhost", "1.2.3", "1.2.3.4.example", "0x7f.1", "127.1"})
    EXPECT_FALSE(is_address(name)) << name;
  EXPECT_TRUE(is_loopback_name("localhost") && is_loopback_name("a.localhost"));
  EXPECT_FALSE(is_loopback_name("notlocalhost") || is_loopback_name("localhost.example"));
}

TEST(Head, HoldsNoLineOfAnybodyElse) {
  Framing framing;
  framing.content_length = 2;
  const std::string head =
      answer_head(200, framing, "a\r\nb: c", "id\r\nx: y", {{"n\r\nz: z", "v\r\n\r\nbody"}, {"Content-Length", "9"}});
  EXPECT_EQ(head.find("\r\nb: c"), std::string::npos) << head;
  EXPECT_EQ(head.find("\r\nx: y"), std::string::npos) << head;
  EXPECT_EQ(head.find("\r\nz: z"), std::string::npos) << head;
  EXPECT_EQ(head.find("\r\n\r\n"), head.size() - 4) << head;
  EXPECT_EQ(head.find("Content-Length: 9"), std::string::npos) << head;
  EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n")) << head;
}

TEST(Lists, KnowTheirTokens) {
  EXPECT_TRUE(has_token("close", "close") && has_token("a, CLOSE ,b", "close"));
  EXPECT_FALSE(has_token("", "close") || has_token("closed", "close") || has_token("not close", "close"));
  EXPECT_EQ(chunk_of(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(Lists, OfForwardersBeginAtTheNearest) {
  using List = std::vector<std::string>;
  EXPECT_EQ(forwarded_from("1.2.3.4"), (List{"1.2.3.4"}));
  EXPECT_EQ(forwarded_from("made up, 2001:db8::1 ,[2001:db8::2]:443,5.6.7.8:90"),
            (List{"5.6.7.8", "2001:db8::2", "2001:db8::1", "made up"}));
  EXPECT_EQ(forwarded_from(","), (List{"", ""}));
}

Route route(const char* method, const char* path) {
  Route made;
  made.method = method;
  made.path = path;
  return made;
}

TEST(Router, TakesTheExactPathThenTheLongestPrefix) {
  Router router;
  for (const char* path : {"/a", "/a/*", "/a/b/*", "/a/b/c"}) router.add(route("GET", path));
  router.add(route("POST", "/a"));
  const auto found = [&](const char* method, const char* path) {
    const auto* one = router.find(method, path).route;
    return one == nullptr ? std::string("none") : one->path;
  };
  EXPECT_EQ(found("GET", "/a"), "/a");
  EXPECT_EQ(found("HEAD", "/a"), "/a");
  EXPECT_EQ(found("GET", "/a/x"), "/a/*");
  EXPECT_EQ(found("GET", "/a/b/x"), "/a/b/*");
  EXPECT_EQ(found("GET", "/a/b/c"), "/a/b/c");
  EXPECT_EQ(found("GET", "/a/"), "none");
  EXPECT_EQ(found("GET", "/ab"), "none");
  EXPECT_EQ(found("PUT", "/a"), "none");
  EXPECT_EQ(router.find("PUT", "/a").allow, "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(router.find("GET", "/nothing").allow, "");
}

TEST(Errors, HaveTheShapeOfTheirPath) {
  Router router;
  router.shape_errors("/v1/messages", [](const ApiError& error) { return "other " + error.message; });
  ApiError error;
  error.status = 429;
  error.message = "say \"please\"\n";
  error.code = "queue_full";
  error.retry_after_s = 3;
  const HttpResponse answer = router.error("/v1/chat/completions", error);
  EXPECT_EQ(
      answer.body,
      R"({"error": {"message": "say \"please\"\n", "type": "rate_limit_error", "param": null, "code": "queue_full"}})");
  EXPECT_EQ(answer.headers, (Headers{{"Retry-After", "3"}}));
  EXPECT_EQ(router.error("/v1/messages/count_tokens", error).body, "other say \"please\"\n");
}

}  // namespace
}  // namespace colibri::server
