// The page's files, as cmake/embed.py put them into the program at build time (see web/README.md).
//
// Called by the routes for GET / and /ui/...; needs no API key. Everything is constant and lives as long as the
// program, so any thread may read it. Invariant: `path` is unique and begins with '/'; `etag` is quoted and changes
// with the bytes.
#pragma once

#include <span>
#include <string_view>

namespace colibri::server {

struct Asset {
  std::string_view path;          ///< "/", "/ui/main.js"
  std::string_view content_type;  ///< "text/javascript; charset=utf-8"
  std::string_view etag;          ///< "\"3f2a...\"": for ETag and If-None-Match
  std::string_view bytes;
};

/// Ordered by path.
std::span<const Asset> assets();

/// The asset at this path, or null.
const Asset* find_asset(std::string_view path);

/// What the page is served with, besides `X-Content-Type-Options: nosniff` and `Cache-Control: no-cache` (a browser
/// asks each time and is told 304). Only the server's own files and routes; nothing inline, no text that becomes
/// markup.
inline constexpr std::string_view kPageSecurityPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace colibri::server
