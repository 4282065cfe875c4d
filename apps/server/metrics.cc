#include "metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include "common/json.h"

namespace colibri::server {
namespace {

namespace json = common::json;

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  const auto [end, code] = std::to_chars(text, text + sizeof(text), value);
  return code == std::errc() ? std::string(text, end) : "NaN";
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quotes)) out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

bool is_metric_name(std::string_view name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') && std::all_of(name.begin(), name.end(), good);
}

std::string text_at(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

std::optional<double> number(const json::value* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_null()) return std::nan("");
  if (!value->is_number()) return std::nullopt;
  return value->to_number<double>();
}

std::optional<std::vector<double>> numbers(const json::value* value) {
  if (value == nullptr || !value->is_array()) return std::nullopt;
  std::vector<double> list;
  for (const json::value& element : value->get_array()) {
    const auto one = number(&element);
    if (!one) return std::nullopt;
    list.push_back(*one);
  }
  return list;
}

std::optional<Labels> labels_of(const json::object& sample) {
  Labels labels;
  const json::value* value = sample.if_contains("labels");
  if (value == nullptr) return labels;
  if (!value->is_object()) return std::nullopt;
  for (const auto& [key, label] : value->get_object()) {
    const std::string name(key.data(), key.size());
    if (!is_metric_name(name)) return std::nullopt;
    labels.emplace_back(name, label.is_string() ? std::string(label.get_string().c_str()) : common::dump_json(label));
  }
  return labels;
}

bool append_sample(const json::value& value, bool is_histogram, MetricsText& text) {
  if (!value.is_object()) return false;
  const json::object& sample = value.get_object();
  const auto labels = labels_of(sample);
  if (!labels) return false;
  if (!is_histogram) {
    const auto one = number(sample.if_contains("value"));
    if (one) text.sample(*labels, *one);
    return one.has_value();
  }
  const auto bounds = numbers(sample.if_contains("bounds")), counts = numbers(sample.if_contains("counts"));
  const auto sum = number(sample.if_contains("sum"));
  if (!bounds || !counts || !sum || counts->size() != bounds->size() + 1) return false;
  text.histogram(*labels, *bounds, *counts, *sum);
  return true;
}

bool append_family(const json::value& value, MetricsText& text) {
  if (!value.is_object()) return false;
  const json::object& family = value.get_object();
  const std::string name = text_at(family, "name"), kind = text_at(family, "kind");
  const json::value* samples = family.if_contains("samples");
  const bool known = kind == "counter" || kind == "gauge" || kind == "histogram";
  if (!is_metric_name(name) || !known || samples == nullptr || !samples->is_array()) return false;
  text.family("colibri_" + name, text_at(family, "help"), kind);
  const auto& list = samples->get_array();
  return std::all_of(list.begin(), list.end(),
                     [&](const json::value& sample) { return append_sample(sample, kind == "histogram", text); });
}

double count_entries(const char* folder) {
  DIR* directory = opendir(folder);
  if (directory == nullptr) return std::nan("");
  double n = -3;  // ".", "..", and the folder's own descriptor
  while (readdir(directory) != nullptr) ++n;
  closedir(directory);
  return n;
}

// Fields of /proc/self/stat from the third on, the state: the second may hold blanks.
std::vector<double> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream rest(line.substr(std::min(line.rfind(')'), line.size() - 1) + 1));
  std::string state;
  rest >> state;
  std::vector<double> fields{0};
  for (double field = 0; rest >> field;) fields.push_back(field);
  return fields;
}

double boot_time() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return std::nan("");
}

}  // namespace

void MetricsText::family(std::string name, std::string_view help, std::string_view kind) {
  name_ = std::move(name);
  text_.append("# HELP ").append(name_).append(" ").append(escaped(help, false)).append("\n# TYPE ").append(name_);
  text_.append(" ").append(kind).append("\n");
}

void MetricsText::sample(std::string_view suffix, const Labels& labels, double value) {
  text_.append(name_).append(suffix);
  for (size_t i = 0; i < labels.size(); ++i) {
    text_.append(i == 0 ? "{" : ",").append(labels[i].first).append("=\"");
    text_.append(escaped(labels[i].second, true)).append("\"");
  }
  text_.append(labels.empty() ? " " : "} ").append(number_text(value)).append("\n");
}

void MetricsText::histogram(const Labels& labels, std::span<const double> bounds, std::span<const double> counts,
                            double sum) {
  double total = 0;
  Labels with_bound = labels;
  with_bound.emplace_back("le", "");
  for (size_t i = 0; i < counts.size(); ++i) {
    total += counts[i];
    with_bound.back().second = i < bounds.size() ? number_text(bounds[i]) : "+Inf";
    sample("_bucket", with_bound, total);
  }
  sample("_sum", labels, sum);
  sample("_count", labels, total);
}

void MetricsText::single(std::string name, std::string_view help, std::string_view kind, double value) {
  family(std::move(name), help, kind);
  sample({}, value);
}

common::Status append_engine_metrics(std::string_view text, MetricsText& out) {
  const auto parsed = common::parse_json(text, "metrics of the engine");
  if (!parsed) return parsed.error();
  if (!parsed->is_array()) return common::run_error("metrics of the engine: no JSON array");
  for (const json::value& family : parsed->get_array()) {
    if (!append_family(family, out))
      return common::run_error("metrics of the engine: not understood: " + common::dump_json(family).substr(0, 200));
  }
  return {};
}

void append_process_metrics(MetricsText& text) {
  const std::vector<double> stat = stat_fields();
  const auto field = [&](size_t number) { return number - 3 < stat.size() ? stat[number - 3] : std::nan(""); };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK)), page = static_cast<double>(sysconf(_SC_PAGESIZE));
  struct rlimit files {};
  getrlimit(RLIMIT_NOFILE, &files);
  text.single("process_cpu_seconds_total", "Processor time of user and system.", "counter",
              (field(14) + field(15)) / ticks);
  text.single("process_threads", "Threads.", "gauge", field(20));
  text.single("process_start_time_seconds", "Start, since 1970.", "gauge", boot_time() + field(22) / ticks);
  text.single("process_virtual_memory_bytes", "Address space.", "gauge", field(23));
  text.single("process_resident_memory_bytes", "Memory that is resident.", "gauge", field(24) * page);
  text.single("process_open_fds", "Open file descriptors.", "gauge", count_entries("/proc/self/fd"));
  text.single("process_max_fds", "Limit of open file descriptors.", "gauge", static_cast<double>(files.rlim_cur));
}

void ServerMetrics::count_request(std::string_view method, std::string_view route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(method), std::string(route), status}];
  Durations& durations = durations_[std::string(route)];
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  durations.counts[static_cast<size_t>(bound - kBounds.begin())] += 1;
  durations.sum += seconds;
}

void ServerMetrics::append(MetricsText& text) const {
  decltype(requests_) requests;
  decltype(durations_) durations;
  {
    const std::lock_guard lock(mutex_);
    requests = requests_;
    durations = durations_;
  }
  text.family("colibri_http_requests_total", "Answered requests.", "counter");
  for (const auto& [key, count] : requests) {
    const auto& [method, route, status] = key;
    text.sample({{"method", method}, {"route", route}, {"status", std::to_string(status)}}, static_cast<double>(count));
  }
  text.family("colibri_http_request_duration_seconds", "From the end of a request's head to the end of its answer.",
              "histogram");
  for (const auto& [route, d] : durations) text.histogram({{"route", route}}, kBounds, d.counts, d.sum);
  const auto gauge = [&](const char* name, const char* help, const std::atomic<int64_t>& value) {
    text.single(name, help, "gauge", static_cast<double>(value.load()));
  };
  const auto counter = [&](const char* name, const char* help, const std::atomic<uint64_t>& value) {
    text.single(name, help, "counter", static_cast<double>(value.load()));
  };
  gauge("colibri_http_open_connections", "Open connections.", open_connections);
  gauge("colibri_http_running_requests", "Requests that are being answered.", running_requests);
  gauge("colibri_http_queued_bytes", "Bytes of answers that clients have not taken yet.", queued_bytes);
  gauge("colibri_http_body_bytes", "Bytes of requests that are being read or answered.", body_bytes);
  counter("colibri_http_connections_total", "Accepted connections.", connections);
  counter("colibri_http_refused_connections_total", "Connections beyond max_connections.", refused_connections);
  counter("colibri_http_slow_readers_total", "Clients dropped because they took nothing of their answer.",
          slow_readers);
  counter("colibri_http_gone_clients_total", "Clients that went before their answer was whole.", gone_clients);
  counter("colibri_http_timeouts_total", "Requests that took too long to arrive.", timeouts);
  counter("colibri_http_received_bytes_total", "Bytes received.", bytes_in);
  counter("colibri_http_sent_bytes_total", "Bytes sent.", bytes_out);
}

}  // namespace colibri::server
