#include "server_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "http_text.h"

namespace colibri::server {
namespace {

using common::Status;

struct Row {
  colibri_setting_info info;
  bool (*apply)(std::string_view value, ServerSettings& settings);  // false: not in the range
};

template <int ServerSettings::*Member, int Low, int High>
bool int_row(std::string_view value, ServerSettings& settings) {
  int parsed = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (code != std::errc() || end != value.data() + value.size() || parsed < Low || parsed > High) return false;
  settings.*Member = parsed;
  return true;
}

template <bool ServerSettings::*Member>
bool bool_row(std::string_view value, ServerSettings& settings) {
  settings.*Member = value == "true";
  return value == "true" || value == "false";
}

template <std::string ServerSettings::*Member, bool MayBeEmpty>
bool text_row(std::string_view value, ServerSettings& settings) {
  settings.*Member = std::string(value);
  return (MayBeEmpty || !value.empty()) && value.find('\0') == value.npos;
}

// "a,b": no empty ones, no blanks.
template <std::vector<std::string> ServerSettings::*Member>
bool list_row(std::string_view value, ServerSettings& settings) {
  std::vector<std::string>& list = settings.*Member;
  list.clear();
  while (!value.empty()) {
    const size_t comma = value.find(',');
    const std::string_view one = value.substr(0, comma);
    if (one.empty() || one.find_first_of(" \t\r\n") != one.npos) return false;
    list.emplace_back(one);
    if (comma == value.npos) return true;
    value.remove_prefix(comma + 1);
    if (value.empty()) return false;
  }
  return true;
}

bool proxy_row(std::string_view value, ServerSettings& settings) {
  std::vector<std::string>& list = settings.trusted_proxy;
  return list_row<&ServerSettings::trusted_proxy>(value, settings) &&
         std::all_of(list.begin(), list.end(), [](const auto& one) { return one == "unix" || is_address(one); });
}

bool body_row(std::string_view value, ServerSettings& settings) {
  constexpr uint64_t kMost = uint64_t{1} << 30;
  uint64_t parsed = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  const std::string_view unit(end, static_cast<size_t>(value.data() + value.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (code != std::errc() || shift < 0 || parsed > (kMost >> shift)) return false;
  settings.max_body_bytes = parsed << shift;
  return settings.max_body_bytes >= 1024;
}

constexpr std::array kRows = {
    Row{{"host", "text", "127.0.0.1", "a name, an address, or the path of a UNIX socket",
         "where the server listens; other machines reach 0.0.0.0 (IPv4) or :: (both)"},
        text_row<&ServerSettings::host, false>},
    Row{{"port", "integer", "8080", "0 to 65535", "0: any free one, which is printed"},
        int_row<&ServerSettings::port, 0, 65535>},
    Row{{"http_threads", "integer", "2", "1 to 64", "threads that read requests and write answers; they never compute"},
        int_row<&ServerSettings::http_threads, 1, 64>},
    Row{{"api_key_file", "path", "", "a path", "who may ask: one key per line, or NAME:KEY; read again on SIGHUP"},
        text_row<&ServerSettings::api_key_file, true>},
    Row{{"insecure", "boolean", "false", "true or false", "listen for other machines although there are no API keys"},
        bool_row<&ServerSettings::insecure>},
    Row{{"cors_origin", "list", "", "origins such as https://chat.example, separated by commas",
         "pages of these origins may call the API from a browser"},
        list_row<&ServerSettings::cors_origin>},
    Row{{"allowed_host", "list", "", "names such as llm.example, separated by commas",
         "what a request's Host may be besides addresses, localhost and the name in host"},
        list_row<&ServerSettings::allowed_host>},
    Row{{"trusted_proxy", "list", "", "addresses such as 127.0.0.1, or unix, separated by commas",
         "proxies that name the client in X-Forwarded-For, for client_requests, client_rate and the log"},
        proxy_row},
    Row{{"max_body", "bytes", "4M", "1K to 1G", "the largest body of a request"}, body_row},
    Row{{"max_connections", "integer", "1024", "1 to 100000", "open connections; beyond, 503 at once"},
        int_row<&ServerSettings::max_connections, 1, 100000>},
    Row{{"header_timeout", "integer", "10", "1 to 3600", "seconds that the head of a request may take"},
        int_row<&ServerSettings::header_timeout_s, 1, 3600>},
    Row{{"body_timeout", "integer", "30", "1 to 3600",
         "seconds that the body of a request may take, and one more per 16 KiB that arrived"},
        int_row<&ServerSettings::body_timeout_s, 1, 3600>},
    Row{{"idle_timeout", "integer", "75", "1 to 86400", "seconds that a connection may wait for its next request"},
        int_row<&ServerSettings::idle_timeout_s, 1, 86400>},
    Row{{"write_timeout", "integer", "60", "1 to 86400",
         "seconds after which a client is dropped that takes nothing of its answer"},
        int_row<&ServerSettings::write_timeout_s, 1, 86400>},
    Row{{"drain_timeout", "integer", "30", "0 to 86400",
         "seconds that running answers may go on after SIGTERM or SIGINT"},
        int_row<&ServerSettings::drain_timeout_s, 0, 86400>},
    Row{{"client_requests", "integer", "0", "0 to 100000", "requests of one client at a time; 0: any number"},
        int_row<&ServerSettings::client_requests, 0, 100000>},
    Row{{"client_rate", "integer", "0", "0 to 1000000", "requests of one client per minute; 0: any number"},
        int_row<&ServerSettings::client_rate, 0, 1000000>},
    Row{{"model_name", "text", "", "a name", "what /v1/models lists; empty: the name of the model's file or folder"},
        text_row<&ServerSettings::model_name, true>},
    Row{{"strict_model", "boolean", "false", "true or false", "404 for requests that name another model"},
        bool_row<&ServerSettings::strict_model>},
    Row{{"max_queue", "integer", "64", "0 to 100000", "requests that may wait for the model; beyond, 429 at once"},
        int_row<&ServerSettings::max_queue, 0, 100000>},
    Row{{"queue_timeout", "integer", "300", "1 to 86400", "seconds that a request may wait for the model; then 429"},
        int_row<&ServerSettings::queue_timeout_s, 1, 86400>},
    Row{{"keep_alive", "integer", "5", "1 to 3600", "seconds of silence after which a stream says that it is alive"},
        int_row<&ServerSettings::keep_alive_s, 1, 3600>},
    Row{{"max_tokens", "integer", "0", "0 to 2147483647", "tokens that an answer may have; 0: what the context holds"},
        int_row<&ServerSettings::max_tokens, 0, 2147483647>},
    Row{{"expert_activations", "boolean", "false", "true or false", "every answer says which experts it used"},
        bool_row<&ServerSettings::expert_activations>},
    Row{{"share_prefixes", "boolean", "false", "true or false",
         "clients share computed prefixes, and can find out by the time that takes what others asked"},
        bool_row<&ServerSettings::share_prefixes>},
    Row{{"log_json", "boolean", "false", "true or false", "log lines as JSON objects"},
        bool_row<&ServerSettings::log_json>},
};

template <size_t I>
Status check_row(const std::string& value) {
  ServerSettings scratch;
  if (kRows[I].apply(value, scratch)) return {};
  return common::usage_error(std::string(kRows[I].info.key) + " is \"" + value.substr(0, 100) + "\", expected " +
                             kRows[I].info.range);
}

template <size_t... I>
constexpr std::array<common::OwnSetting, sizeof...(I)> own_rows(std::index_sequence<I...>) {
  return {common::OwnSetting{kRows[I].info, check_row<I>}...};
}

constexpr auto kOwnRows = own_rows(std::make_index_sequence<kRows.size()>());

}  // namespace

common::OwnSettings setting_rows() { return kOwnRows; }

std::vector<std::pair<std::string, std::string>> engine_defaults() {
  return {{"parallel", "8"}, {"prefix_cache", "auto"}};
}

ServerSettings server_settings(const common::Settings& settings) {
  ServerSettings typed;
  for (const Row& row : kRows) row.apply(settings.at(row.info.key).value, typed);
  const std::string& parallel = settings.at("parallel").value;
  std::from_chars(parallel.data(), parallel.data() + parallel.size(), typed.parallel);  // checked by its own row
  return typed;
}

}  // namespace colibri::server
