// The text of HTTP: what a request's target, Host and Origin say, and how the head of an answer is written.
//
// Pure functions on bytes from outside; the connection and the front door call them. No network code, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http.h"

namespace colibri::server {

/// "Not Found" of 404.
std::string_view reason_of(int status);

struct Target {
  std::string path;   ///< decoded; "*" for OPTIONS *
  std::string query;  ///< as it came
};
/// Of "/v1/models?limit=1" or "http://host/v1/models". Nothing when it is no path, is badly escaped, or holds a NUL, a
/// control character or a ".." segment.
std::optional<Target> parse_target(std::string_view target);

/// The name in a Host header: without the port and a last dot, in lower case; IPv6 addresses without their brackets.
/// Nothing when it is no host.
std::optional<std::string> host_name(std::string_view host);
/// Whether it is an IPv4 or IPv6 address: nobody can make a page's own name point to such a Host (DNS rebinding).
bool is_address(const std::string& name);
bool is_loopback_name(std::string_view name);

/// What an X-Forwarded-For header lists, the last (nearest) first; addresses without brackets and ports.
std::vector<std::string> forwarded_from(std::string_view list);

/// Whether a client's request id may be used: 1 to 128 letters, digits, and . _ - : + = / @
bool is_good_request_id(std::string_view id);
/// Whether "close", "keep-alive", ... stands in a Connection header's list.
bool has_token(std::string_view list, std::string_view token);

/// Text without what could end a header's line.
std::string header_value(std::string_view text);

struct Framing {
  bool keep_alive = true;
  bool chunked = false;
  std::optional<uint64_t> content_length;
};
/// The head of an answer, with the empty line. Names that the server sets itself are skipped in `headers`.
std::string answer_head(int status, const Framing& framing, std::string_view content_type, std::string_view request_id,
                        const Headers& headers);

/// One chunk of a chunked answer.
std::string chunk_of(std::string_view bytes);

}  // namespace colibri::server
