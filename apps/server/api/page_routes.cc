// The page at / and its files: out of the program, to anybody, whether the model is there or not.
#include "api_routes.h"
#include "server/assets.h"

namespace colibri::server {
namespace {

// If-None-Match lists tags, some perhaps weak (W/"..."), or is *.
bool has_it(std::string_view if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string_view::npos;
}

HttpResponse answer(const Asset& asset, const HttpRequest& request) {
  HttpResponse response;
  response.headers = {{"ETag", std::string(asset.etag)},
                      {"Cache-Control", "no-cache"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Content-Security-Policy", std::string(kPageSecurityPolicy)}};
  response.content_type = asset.content_type;
  if (has_it(request.header("if-none-match"), asset.etag))
    response.status = 304;
  else
    response.body = asset.bytes;
  return response;
}

}  // namespace

void add_page_routes(Router& router) {
  for (const Asset& asset : assets())
    add_quick_route(router, "GET", asset.path, Access::kPublic,
                    [&asset](const HttpRequest& request) { return answer(asset, request); });
}

}  // namespace colibri::server
