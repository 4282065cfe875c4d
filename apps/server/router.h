// Which handler answers which method and path, who may call it, and in which shape its errors are written.
//
// Filled when the server starts, read by every connection afterwards; no locks. A path that ends in "/*" stands for
// everything beneath it; an exact path goes first, then the longest of these.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "errors.h"
#include "http.h"

namespace colibri::server {

enum class Access {
  kPublic,  ///< answers without an API key
  kKey,     ///< wants a key, where the server has keys
};

struct Route {
  std::string method;  ///< "GET" answers HEAD as well; the connection leaves the body out
  std::string path;    ///< also the route's label in /metrics
  Access access = Access::kKey;
  Handler handler;
  bool while_draining = false;  ///< still answers when the server is about to end
};

class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }
  /// Errors of every path that starts with `prefix`, those of the server itself included. The longest prefix counts.
  void shape_errors(std::string prefix, ErrorShape shape) { shapes_.emplace_back(std::move(prefix), shape); }

  struct Found {
    const Route* route = nullptr;
    std::string allow;  ///< methods of this path, "GET, HEAD, OPTIONS"; empty: there is no such path
  };
  Found find(std::string_view method, std::string_view path) const;
  HttpResponse error(std::string_view path, const ApiError& error) const;
  ErrorShape shape_of(std::string_view path) const;

 private:
  std::vector<Route> routes_;
  std::vector<std::pair<std::string, ErrorShape>> shapes_;
};

}  // namespace colibri::server
