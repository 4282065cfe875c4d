#include "engine/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/edit_distance.h"

namespace colibri::engine {
namespace {

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Error out_of_range(const SettingRow& row, std::string_view value) {
  return {ErrorCode::kUsage,
          std::string(row.key) + " is \"" + std::string(value.substr(0, 100)) + "\", expected " + row.range};
}

Status integer(const SettingRow& row, std::string_view value, int64_t low, int64_t high, int64_t& target) {
  int64_t parsed = 0;
  if (!parse_number(value, parsed) || parsed < low || parsed > high) return out_of_range(row, value);
  target = parsed;
  return {};
}

template <int Settings::*Member, int64_t Low, int64_t High, int Auto = -1>
Status int_row(const SettingRow& row, std::string_view value, Settings& settings) {
  if (Auto >= 0 && value == "auto") {
    settings.*Member = Auto;
    return {};
  }
  int64_t parsed = 0;
  COLIBRI_TRY(integer(row, value, Low, High, parsed));
  settings.*Member = static_cast<int>(parsed);
  return {};
}

// The choices are the row's range: "a, b or c".
template <std::string Settings::*Member>
Status choice_row(const SettingRow& row, std::string_view value, Settings& settings) {
  const std::string padded = " " + std::string(value) + " ";
  std::string choices = " ";
  for (const char* c = row.range; *c != '\0'; ++c) choices += *c == ',' ? ' ' : *c;
  choices += ' ';
  if (value.empty() || value == "or" || value.find(' ') != std::string_view::npos ||
      choices.find(padded) == std::string::npos)
    return out_of_range(row, value);
  settings.*Member = std::string(value);
  return {};
}

Status memory_row(const SettingRow& row, std::string_view value, Settings& settings) {
  settings.memory_bytes = -1;
  if (value == "auto") return {};
  settings.memory_bytes = parse_bytes(value);
  return settings.memory_bytes > 0 ? Status{} : out_of_range(row, value);
}

Status expert_memory_row(const SettingRow& row, std::string_view value, Settings& settings) {
  settings.expert_memory_bytes = -1;
  settings.expert_memory_percent = -1;
  if (value == "auto") return {};
  if (value.ends_with('%')) {
    double percent = 0;
    if (!parse_number(value.substr(0, value.size() - 1), percent) || !(percent >= 0 && percent <= 100))
      return out_of_range(row, value);
    settings.expert_memory_percent = percent;
    return {};
  }
  settings.expert_memory_bytes = parse_bytes(value);
  return settings.expert_memory_bytes >= 0 ? Status{} : out_of_range(row, value);
}

Status context_row(const SettingRow& row, std::string_view value, Settings& settings) {
  settings.context = 0;
  return value == "auto" ? Status{} : integer(row, value, 1, 1 << 24, settings.context);
}

Status lfu_threshold_row(const SettingRow& row, std::string_view value, Settings& settings) {
  return integer(row, value, 0, int64_t{1} << 40, settings.lfu_threshold);
}

Status heat_file_row(const SettingRow& row, std::string_view value, Settings& settings) {
  if (value.empty()) return out_of_range(row, value);
  settings.heat_file = std::string(value);
  return {};
}

Status prefetch_weight_row(const SettingRow& row, std::string_view value, Settings& settings) {
  settings.prefetch_weight = -1;
  if (value == "auto") return {};
  double weight = 0;
  if (!parse_number(value, weight) || !(weight >= 0 && weight <= 1)) return out_of_range(row, value);
  settings.prefetch_weight = weight;
  return {};
}

Status prefix_cache_row(const SettingRow& row, std::string_view value, Settings& settings) {
  settings.prefix_cache_bytes = value == "auto" ? -1 : value == "off" ? 0 : parse_bytes(value);
  return value == "auto" || settings.prefix_cache_bytes >= 0 ? Status{} : out_of_range(row, value);
}

Status prefix_disk_row(const SettingRow& row, std::string_view value, Settings& settings) {
  settings.prefix_disk_bytes = parse_bytes(value);
  return settings.prefix_disk_bytes > 0 ? Status{} : out_of_range(row, value);
}

Status prefix_folder_row(const SettingRow& row, std::string_view value, Settings& settings) {
  if (value.empty()) return out_of_range(row, value);
  settings.prefix_folder = std::string(value);
  return {};
}

Status step_miss_seconds_row(const SettingRow& row, std::string_view value, Settings& settings) {
  double seconds = 0;
  if (!parse_number(value, seconds) || !(seconds > 0 && seconds <= 86400)) return out_of_range(row, value);
  settings.step_miss_seconds = seconds;
  return {};
}

Status prefill_share_row(const SettingRow& row, std::string_view value, Settings& settings) {
  double share = 0;
  if (!parse_number(value, share) || !(share >= 0.01 && share <= 100)) return out_of_range(row, value);
  settings.prefill_share = share;
  return {};
}

Status mmap_exec_row(const SettingRow& row, std::string_view value, Settings& settings) {
  if (value != "true" && value != "false") return out_of_range(row, value);
  settings.mmap_exec = value == "true";
  return {};
}

constexpr std::array kRows = {
    SettingRow{"memory", "bytes", "auto", "auto, or a size such as 8G (K, M, G in powers of 1024)",
               "bytes Colibri may use in all; auto: what the machine or its cgroup leaves free, less a reserve",
               memory_row},
    SettingRow{"expert_memory", "bytes", "auto", "auto, a size such as 4G, or a share such as 50%",
               "bytes, or percent of all experts, for the expert cache; auto: what the budget leaves",
               expert_memory_row},
    SettingRow{"context", "integer", "auto", "auto, or 1 to 16777216", "tokens per sequence", context_row},
    SettingRow{"parallel", "integer", "1", "1 to 1024", "sequences planned for", int_row<&Settings::parallel, 1, 1024>},
    SettingRow{"max_batch_size", "integer", "64", "1 to 4096", "sequences in one decode step",
               int_row<&Settings::max_batch_size, 1, 4096>},
    SettingRow{"prefill_chunk", "integer", "auto", "auto, or 1 to 65536", "prompt tokens in one prefill pass",
               int_row<&Settings::prefill_chunk, 1, 65536, 0>},
    SettingRow{
        "prefill_share", "number", "0.5", "0.01 to 100",
        "while others wait for tokens, a step spends this much time on prompts for each second on tokens: less is "
        "steadier for those who read, more is sooner for those who wait for a first token",
        prefill_share_row},
    SettingRow{"threads", "integer", "auto", "auto, or 1 to 1024",
               "compute threads; auto: the cores this process may use", int_row<&Settings::threads, 1, 1024, 0>},
    SettingRow{"router_threads", "integer", "1", "1 to 1024", "threads that the router uses",
               int_row<&Settings::router_threads, 1, 1024>},
    SettingRow{"isa", "choice", "auto", "auto, scalar, sse4, avx2, avxvnni, avx512, amx or neon",
               "forces an instruction set; one that this CPU lacks is an error", choice_row<&Settings::isa>},
    SettingRow{"kv_type", "choice", "f32", "f32, f16 or q8",
               "how keys and values are kept: f16 takes half of the memory, q8 a little more than a quarter",
               choice_row<&Settings::kv_type>},
    SettingRow{"activations", "choice", "auto", "auto or float",
               "auto: 8-bit against quantised weights, float against float weights; float: never quantised",
               choice_row<&Settings::activations>},
    SettingRow{"expert_cache_policy", "choice", "auto", "auto, lru or lfu", "which experts stay when not all fit",
               choice_row<&Settings::expert_cache_policy>},
    SettingRow{"lfu_threshold", "integer", "100", "0 to 1099511627776",
               "with lfu, an expert that was activated more often than this stays", lfu_threshold_row},
    SettingRow{"heat_file", "path", "auto", "auto, off, or a path", "where activation counts are kept between runs",
               heat_file_row},
    SettingRow{
        "batching", "choice", "routing", "fifo or routing",
        "who goes first when experts stream and requests wait: fifo, in the order of due times; routing, those whose "
        "experts are in memory or wanted by those that run, within a bound",
        choice_row<&Settings::batching>},
    SettingRow{
        "step_miss_seconds", "number", "2", "more than 0, to 86400",
        "another request waits while a step with it would, by what was measured, spend longer on reading experts",
        step_miss_seconds_row},
    SettingRow{"prefix_cache", "bytes", "off", "off, auto, or a size such as 512M",
               "memory for the beginnings of prompts that were computed already; auto: up to a sixteenth of the budget",
               prefix_cache_row},
    SettingRow{"prefix_folder", "path", "off", "off, or a path",
               "a folder where computed beginnings are kept, too, for later runs", prefix_folder_row},
    SettingRow{"prefix_disk", "bytes", "4G", "a size such as 4G", "bytes that prefix_folder may take", prefix_disk_row},
    SettingRow{"prefetch_weight", "number", "auto", "auto, or 0 to 1",
               "read predicted experts ahead while the disk is idle", prefetch_weight_row},
    SettingRow{"mmap_exec", "boolean", "false", "true or false", "accepted; weights are never mapped executable",
               mmap_exec_row},
    SettingRow{"stream_count", "integer", "8", "1 to 64", "CUDA streams of the GPU back end",
               int_row<&Settings::stream_count, 1, 64>},
    SettingRow{"io", "choice", "auto", "auto, buffered, direct or mapped",
               "how experts that have no room in memory are read: through the page cache or past it",
               choice_row<&Settings::io>},
    SettingRow{"read_timeout", "integer", "30", "1 to 86400",
               "seconds that a token waits for a disk that gives nothing, before it ends with an error",
               int_row<&Settings::read_timeout, 1, 86400>},
    SettingRow{"log_level", "choice", "info", "error, warn, info or debug",
               "which log lines are written; the program shows only warnings unless this is given",
               choice_row<&Settings::log_level>},
};

}  // namespace

std::span<const SettingRow> setting_rows() { return kRows; }

int64_t parse_bytes(std::string_view text) {
  double factor = 1;
  if (text.ends_with('B') || text.ends_with('b')) text.remove_suffix(1);
  if (text.ends_with('i')) text.remove_suffix(1);
  constexpr std::string_view kUnits = "KMGT";
  if (!text.empty()) {
    const char unit = text.back() >= 'a' ? static_cast<char>(text.back() - 'a' + 'A') : text.back();
    if (const size_t at = kUnits.find(unit); at != std::string_view::npos) {
      factor = std::ldexp(1.0, static_cast<int>(10 * (at + 1)));
      text.remove_suffix(1);
    }
  }
  double value = 0;
  if (text.empty() || !parse_number(text, value) || !(value >= 0) || value * factor > 9e18) return -1;
  return static_cast<int64_t>(value * factor);
}

Status apply_setting(std::string_view key, std::string_view value, Settings& settings) {
  for (const SettingRow& row : kRows)
    if (key == row.key) return row.apply(row, value, settings);
  const auto nearest = std::min_element(kRows.begin(), kRows.end(), [&](const SettingRow& a, const SettingRow& b) {
    return edit_distance(a.key, key) < edit_distance(b.key, key);
  });
  return Error{ErrorCode::kUsage,
               "unknown setting \"" + std::string(key.substr(0, 100)) + "\"; the nearest is " + nearest->key};
}

}  // namespace colibri::engine
