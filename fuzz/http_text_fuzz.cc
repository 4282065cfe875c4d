// What bytes of clients may do to the text of the server: targets, hosts, request ids, keys, heads of answers, log
// lines. Input: any bytes, taken as each of these in turn.
#include <algorithm>
#include <string>

#include "common/json.h"
#include "fuzz.h"
#include "server/api_keys.h"
#include "server/front_door.h"
#include "server/http_text.h"
#include "server/log.h"

namespace server = colibri::server;

namespace {

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

void check_target(std::string_view text) {
  const auto target = server::parse_target(text);
  if (!target || target->path == "*") return;
  COLIBRI_CHECK(target->path.starts_with('/') && !has_control(target->path));
  COLIBRI_CHECK((target->path + "/").find("/../") == std::string::npos);
}

void check_host(std::string_view text) {
  const auto name = server::host_name(text);
  COLIBRI_CHECK(!name || (!name->empty() && name->find_first_of("/@ ,\\") == std::string::npos && !has_control(*name)));
}

void check_keys(std::string_view text) {
  const auto keys = server::parse_api_keys(text, "keys");
  if (!keys) return;
  for (const server::ApiKey& key : *keys)
    COLIBRI_CHECK(key.key.size() >= 8 && !key.name.empty() && !has_control(key.key));
}

// Whatever is in it, an answer's head has the lines that were meant, and one end.
void check_head(const std::string& text) {
  const std::string head = server::answer_head(200, {}, text, text, {{text, text}});
  COLIBRI_CHECK(head.find("\r\n\r\n") == head.size() - 4);
  const auto lines = std::count(head.begin(), head.end(), '\n');
  COLIBRI_CHECK(lines == std::count(head.begin(), head.end(), '\r') && lines >= 6 && lines <= 8);
}

void check_log(const std::string& text) {
  server::RequestRecord record;
  record.id = record.client = record.method = record.path = record.end = text;
  for (const bool as_json : {false, true}) {
    const std::string line = server::format_request(as_json, "T", record);
    COLIBRI_CHECK(!has_control(line));
    COLIBRI_CHECK(!as_json || colibri::common::parse_json(line, "line"));
    COLIBRI_CHECK(!has_control(server::format_line(as_json, "T", server::LogLevel::kInfo, text)));
  }
}

void check_door(std::string_view text) {
  server::Router router;
  const server::ApiKeys keys;
  server::FrontDoor door(router, keys, {});
  const auto [path, rest] = colibri::fuzz::cut(text, '\n');
  const auto [host, origin] = colibri::fuzz::cut(rest, '\n');
  server::HttpRequest head;
  head.method = "GET";
  head.path = std::string(path);
  head.headers = {{"host", std::string(host)}, {"origin", std::string(origin)}};
  const auto entry = door.enter(head, false);  // there are no routes
  COLIBRI_CHECK(entry.route == nullptr && entry.answer && entry.answer->status >= 400);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = colibri::fuzz::text_of(data, size);
  check_target(text);
  check_host(text);
  check_keys(text);
  check_head(std::string(text));
  check_log(std::string(text));
  check_door(text);
  COLIBRI_CHECK(!server::is_good_request_id(text) || !has_control(text));
  return 0;
}
