// Decides, when the head of a request has arrived and before its body is read, whether it may come in.
//
// Behind a proxy that is trusted, the client is the one that the proxy names. Then, in this order: the Host is ours,
// the path exists and knows the method, a page's Origin is ours, the API key is right, the server is not ending, the
// client has not too much running. Called by every connection, from any thread; the router and the rules do not change
// while it runs, the keys may (ApiKeys).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api_keys.h"
#include "client_limits.h"
#include "router.h"

namespace colibri::server {

struct DoorRules {
  std::vector<std::string> allowed_hosts;    ///< besides addresses and localhost; lower case, "*": any
  std::vector<std::string> trusted_proxies;  ///< addresses, "unix": who comes through the server's UNIX socket
  std::vector<std::string> cors_origins;     ///< as browsers send them: https://chat.example
  int requests_at_a_time = 0, requests_per_minute = 0;  ///< of one client; 0: no limit
};

class FrontDoor {
 public:
  FrontDoor(const Router& router, const ApiKeys& keys, DoorRules rules);

  struct Entry {
    const Route* route = nullptr;        ///< where to go, when there is no answer yet
    std::optional<HttpResponse> answer;  ///< a refusal, or all that is to be said (OPTIONS)
    Headers headers;                     ///< for the answer, whoever writes it (CORS)
    std::shared_ptr<void> place;         ///< held while the request runs
  };
  /// Sets head.client, which must hold the address. `http10`: the request's version knows no Host.
  Entry enter(HttpRequest& head, bool http10);

  /// From now on only routes that say so answer; the others give 503.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  const Router& router() const { return router_; }

 private:
  void name_client(HttpRequest& head) const;
  std::optional<ApiError> check_host(const HttpRequest& head, bool http10) const;
  std::optional<ApiError> check_origin(const HttpRequest& head, Headers& headers) const;
  std::optional<ApiError> check_key(HttpRequest& head, Access access) const;
  std::optional<ApiError> check_limits(const HttpRequest& head, std::shared_ptr<void>& place);
  HttpResponse preflight(const HttpRequest& head, const std::string& allow) const;

  const Router& router_;
  const ApiKeys& keys_;
  const DoorRules rules_;
  ClientLimits limits_;
  std::atomic<bool> draining_{false};
};

}  // namespace colibri::server
