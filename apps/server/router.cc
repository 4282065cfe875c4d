#include "router.h"

#include <algorithm>

namespace colibri::server {
namespace {

// How well the route's path fits: 0 not at all, more is better.
size_t fit(std::string_view pattern, std::string_view path) {
  if (pattern == path) return SIZE_MAX;
  if (!pattern.ends_with("/*")) return 0;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern) ? pattern.size() : 0;
}

bool answers(const Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

}  // namespace

Router::Found Router::find(std::string_view method, std::string_view path) const {
  Found found;
  size_t best = 0;
  for (const Route& route : routes_) best = std::max(best, fit(route.path, path));
  if (best == 0) return found;
  for (const Route& route : routes_) {
    if (fit(route.path, path) != best) continue;
    if (found.route == nullptr && answers(route, method)) found.route = &route;
    found.allow += route.method + (route.method == "GET" ? ", HEAD, " : ", ");
  }
  found.allow += "OPTIONS";
  return found;
}

ErrorShape Router::shape_of(std::string_view path) const {
  ErrorShape shape = openai_error;
  size_t longest = 0;
  for (const auto& [prefix, candidate] : shapes_) {
    if (path.starts_with(prefix) && prefix.size() >= longest) longest = prefix.size(), shape = candidate;
  }
  return shape;
}

HttpResponse Router::error(std::string_view path, const ApiError& error) const {
  return error_answer(error, shape_of(path));
}

}  // namespace colibri::server
