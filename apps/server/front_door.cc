#include "front_door.h"

#include <algorithm>

#include "http_text.h"

namespace colibri::server {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

// A page that this server gave: its origin is the Host of the request.
bool is_same_origin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  return false;
}

bool is_header_list(std::string_view text) {
  return text.size() <= 2048 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == ',' || c == ' ';
         });
}

ApiError refused(int status, std::string message, std::string code) {
  ApiError error;
  error.status = status;
  error.message = std::move(message);
  error.code = std::move(code);
  return error;
}

size_t count_hosts(const HttpRequest& head) {
  return static_cast<size_t>(std::count_if(head.headers.begin(), head.headers.end(),
                                           [](const auto& header) { return header.first == "host"; }));
}

ApiError unknown_path(const HttpRequest& head) {
  return refused(404, "there is no " + head.path.substr(0, 200) + " here; GET /openapi.json lists what there is",
                 "not_found");
}

ApiError wrong_method(const HttpRequest& head, const std::string& allow) {
  return refused(405, head.path.substr(0, 200) + " does not know " + head.method.substr(0, 40) + "; it knows " + allow,
                 "method_not_allowed");
}

}  // namespace

FrontDoor::FrontDoor(const Router& router, const ApiKeys& keys, DoorRules rules)
    : router_(router),
      keys_(keys),
      rules_(std::move(rules)),
      limits_(rules_.requests_at_a_time, rules_.requests_per_minute) {}

// The last address that no trusted proxy has; what stands before it is the client's own word.
void FrontDoor::name_client(HttpRequest& head) const {
  if (!contains(rules_.trusted_proxies, head.client)) return;
  for (auto header = head.headers.rbegin(); header != head.headers.rend(); ++header) {
    if (header->first != "x-forwarded-for") continue;
    for (const std::string& address : forwarded_from(header->second)) {
      if (!is_address(address)) return;
      head.client = address;
      if (!contains(rules_.trusted_proxies, address)) return;
    }
  }
}

std::optional<ApiError> FrontDoor::check_host(const HttpRequest& head, bool http10) const {
  const size_t hosts = count_hosts(head);
  if (hosts == 0 && http10) return std::nullopt;
  if (hosts != 1)
    return refused(400, "a request has one Host header, this one has " + std::to_string(hosts), "bad_host");
  const auto name = host_name(head.header("host"));
  if (!name) return refused(400, "the Host header is no host", "bad_host");
  const bool known = is_address(*name) || is_loopback_name(*name) || contains(rules_.allowed_hosts, *name) ||
                     contains(rules_.allowed_hosts, "*");
  if (known) return std::nullopt;
  return refused(403, "this server is not known as " + *name + "; start it with --allowed-host " + *name,
                 "host_not_allowed");
}

std::optional<ApiError> FrontDoor::check_origin(const HttpRequest& head, Headers& headers) const {
  const std::string_view origin = head.header("origin");
  if (!rules_.cors_origins.empty()) headers.emplace_back("Vary", "Origin");
  if (origin.empty() || is_same_origin(origin, head.header("host"))) return std::nullopt;
  if (!contains(rules_.cors_origins, origin)) {
    const std::string shown(origin.substr(0, 200));
    return refused(403, "pages of " + shown + " may not call this server; start it with --cors-origin " + shown,
                   "origin_not_allowed");
  }
  headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers", "x-request-id, retry-after");
  return std::nullopt;
}

std::optional<ApiError> FrontDoor::check_key(HttpRequest& head, Access access) const {
  if (keys_.empty()) return std::nullopt;
  const std::string_view key = key_of(head);
  if (auto name = key.empty() ? std::nullopt : keys_.name_of(key)) {
    head.client = std::move(*name);
    return std::nullopt;
  }
  if (access == Access::kPublic) return std::nullopt;
  return refused(401,
                 key.empty() ? "no API key; send one as \"Authorization: Bearer KEY\" or x-api-key"
                             : "the API key is none of this server's",
                 "invalid_api_key");
}

std::optional<ApiError> FrontDoor::check_limits(const HttpRequest& head, std::shared_ptr<void>& place) {
  if (head.method != "POST") return std::nullopt;  // what computes is a POST
  ClientLimits::Answer answer = limits_.enter(head.client, ClientLimits::Clock::now());
  place = std::move(answer.place);
  if (answer.admitted) return std::nullopt;
  ApiError error = refused(429, std::move(answer.refusal), "rate_limit_exceeded");
  error.retry_after_s = answer.retry_after_s;
  return error;
}

HttpResponse FrontDoor::preflight(const HttpRequest& head, const std::string& allow) const {
  HttpResponse answer;
  answer.status = 204;
  answer.content_type.clear();
  answer.headers.emplace_back("Allow", allow);
  if (head.header("access-control-request-method").empty()) return answer;
  const std::string_view wanted = head.header("access-control-request-headers");
  answer.headers.emplace_back("Access-Control-Allow-Methods", allow);
  if (!wanted.empty() && is_header_list(wanted))
    answer.headers.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
  answer.headers.emplace_back("Access-Control-Max-Age", "600");
  return answer;
}

FrontDoor::Entry FrontDoor::enter(HttpRequest& head, bool http10) {
  Entry entry;
  const auto refuse = [&](const ApiError& error) -> Entry& {
    entry.answer = router_.error(head.path, error);
    return entry;
  };
  name_client(head);
  if (const auto error = check_host(head, http10)) return refuse(*error);
  const Router::Found found = router_.find(head.method, head.path);
  const bool asks_server = head.method == "OPTIONS" && head.path == "*";
  if (found.allow.empty() && !asks_server) return refuse(unknown_path(head));
  if (const auto error = check_origin(head, entry.headers)) return refuse(*error);
  if (head.method == "OPTIONS") {
    entry.answer = preflight(head, asks_server ? "GET, HEAD, POST, OPTIONS" : found.allow);
    return entry;
  }
  if (found.route == nullptr) {
    refuse(wrong_method(head, found.allow)).answer->headers.emplace_back("Allow", found.allow);
    return entry;
  }
  entry.route = found.route;
  if (const auto error = check_key(head, found.route->access)) return refuse(*error);
  if (draining_ && !found.route->while_draining) {
    ApiError error = refused(503, "the server is shutting down; ask again in a moment", "shutting_down");
    error.retry_after_s = 1;
    return refuse(error);
  }
  if (const auto error = check_limits(head, entry.place)) return refuse(*error);
  return entry;
}

}  // namespace colibri::server
