#include "http_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

namespace colibri::server {
namespace {

constexpr std::pair<int, std::string_view> kReasons[] = {
    {100, "Continue"},
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    {529, "Overloaded"},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_alphanumeric(char c) {
  const char small = lower(c);
  return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9');
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = lower(c);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

std::optional<std::string> unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

bool climbs(std::string_view path) { return (std::string(path) + "/").find("/../") != std::string::npos; }

// "http://host/path" gives "/path".
std::string_view without_authority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t slash = target.find_first_of("/?", scheme.size());
    return slash == target.npos ? "/" : target.substr(slash);
  }
  return target;
}

std::string http_date() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const size_t n = std::strftime(text, sizeof(text), ", %d MMM %Y %H:%M:%S GMT", &utc);
  std::string date = kDays[utc.tm_wday] + std::string(text, n);
  return date.replace(date.find("MMM"), 3, kMonths[utc.tm_mon]);
}

bool is_servers_own(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "date", "server", "connection", "content-length", "transfer-encoding", "content-type", "x-request-id"};
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  return std::find(std::begin(kNames), std::end(kNames), small) != std::end(kNames);
}

void add_line(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ").append(header_value(value)).append("\r\n");
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::string_view reason_of(int status) {
  const auto* found =
      std::find_if(std::begin(kReasons), std::end(kReasons), [status](const auto& row) { return row.first == status; });
  return found == std::end(kReasons) ? "Unknown" : found->second;
}

std::optional<Target> parse_target(std::string_view target) {
  if (target == "*") return Target{"*", {}};
  target = without_authority(target);
  target = target.substr(0, target.find('#'));
  const size_t mark = std::min(target.find('?'), target.size());
  std::optional<std::string> path = unescape(target.substr(0, mark));
  if (mark == 0 && !target.empty()) path = "/";
  if (!path || !path->starts_with('/') || has_control(*path) || climbs(*path)) return std::nullopt;
  return Target{std::move(*path), std::string(target.substr(std::min(mark + 1, target.size())))};
}

std::optional<std::string> host_name(std::string_view host) {
  const bool bracketed = host.starts_with('[');
  const size_t end = bracketed ? host.find(']') : std::min(host.find(':'), host.size());
  if (end == host.npos) return std::nullopt;
  std::string_view name = bracketed ? host.substr(1, end - 1) : host.substr(0, end);
  std::string_view rest = host.substr(std::min(end + (bracketed ? 1 : 0), host.size()));
  uint16_t port = 0;
  if (!rest.empty()) {
    const auto [stop, code] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), port);
    if (rest[0] != ':' || (rest.size() > 1 && (code != std::errc() || stop != rest.data() + rest.size())))
      return std::nullopt;
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > 253) return std::nullopt;
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  const auto good = [bracketed](char c) {
    return is_alphanumeric(c) || c == '.' || c == '-' || c == '_' || (bracketed && (c == ':' || c == '%'));
  };
  if (!std::all_of(small.begin(), small.end(), good)) return std::nullopt;
  return small;
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, name.substr(0, name.find('%')).c_str(), bytes.data()) == 1;
}

std::vector<std::string> forwarded_from(std::string_view list) {
  std::vector<std::string> hosts;
  for (bool more = true; more;) {
    const size_t comma = list.rfind(',');
    more = comma != list.npos;
    const std::string one(trimmed(list.substr(more ? comma + 1 : 0)));
    list = list.substr(0, more ? comma : 0);
    hosts.push_back(is_address(one) ? one : host_name(one).value_or(one));
  }
  return hosts;
}

bool is_loopback_name(std::string_view name) { return name == "localhost" || name.ends_with(".localhost"); }

bool is_good_request_id(std::string_view id) {
  static constexpr std::string_view kMarks = "._-:+=/@";
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return is_alphanumeric(c) || kMarks.find(c) != kMarks.npos; });
}

bool has_token(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (equal_ignoring_case(trimmed(list.substr(0, comma)), token)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::string header_value(std::string_view text) {
  std::string clean;
  for (const char c : text) clean += static_cast<unsigned char>(c) < 32 || c == 127 ? ' ' : c;
  return clean;
}

std::string answer_head(int status, const Framing& framing, std::string_view content_type, std::string_view request_id,
                        const Headers& headers) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head.append(reason_of(status)).append("\r\n");
  add_line(head, "Date", http_date());
  add_line(head, "Server", "colibri");
  if (!content_type.empty()) add_line(head, "Content-Type", content_type);
  if (framing.chunked) add_line(head, "Transfer-Encoding", "chunked");
  if (framing.content_length) add_line(head, "Content-Length", std::to_string(*framing.content_length));
  add_line(head, "Connection", framing.keep_alive ? "keep-alive" : "close");
  add_line(head, "x-request-id", request_id);
  for (const auto& [name, value] : headers)
    if (!is_servers_own(name)) add_line(head, header_value(name), value);
  return head += "\r\n";
}

std::string chunk_of(std::string_view bytes) {
  char size[17];
  const auto [end, code] = std::to_chars(size, size + sizeof(size), bytes.size(), 16);
  std::string chunk(size, code == std::errc() ? end : size);
  return chunk.append("\r\n").append(bytes).append("\r\n");
}

}  // namespace colibri::server
