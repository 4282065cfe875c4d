// colibri plan: what a run would keep where, as a table, and how fast it could decode at best.

#include <cmath>
#include <cstdio>

#include "commands.h"
#include "common/progress.h"
#include "report.h"
#include "session.h"

namespace colibri::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// The library's own report, so every key is there.
class Plan {
 public:
  explicit Plan(const json::object& object) : object_(object) {}
  double number(const char* key) const { return to_double(object_.at(key)); }
  // 0 where there is no bound.
  double bound(const char* key) const {
    const json::value& value = object_.at("bounds").at(key);
    return value.is_null() ? 0 : to_double(value);
  }
  double disk(const char* key) const { return to_double(object_.at("disk").at(key)); }
  bool reads_directly() const { return object_.at("disk").at("method") == "direct"; }
  std::string count(const char* key) const { return std::to_string(std::llround(number(key))); }
  std::string bytes(const char* key) const { return human_bytes(static_cast<uint64_t>(number(key))); }
  std::string text(const char* key) const {
    const json::value* value = object_.if_contains(key);
    return value != nullptr ? std::string(value->as_string()) : std::string();
  }
  bool streams() const { return object_.at("streams").as_bool(); }

 private:
  static double to_double(const json::value& value) { return value.to_number<double>(); }
  const json::object& object_;
};

std::string speed(double tokens_per_second) {
  char text[48];
  std::snprintf(text, sizeof text, tokens_per_second < 10 ? "%.1f tokens/s" : "%.0f tokens/s", tokens_per_second);
  return text;
}

std::string per_second(double bytes) { return human_bytes(static_cast<uint64_t>(bytes)) + "/s"; }

std::string where_experts_are(const Plan& plan) {
  if (!plan.streams()) return "in memory, all " + plan.count("experts");
  return plan.count("expert_slots") + " of " + plan.count("experts") +
         " in memory at a time, the others are read when they are wanted";
}

std::string memory_table(const Plan& plan) {
  Rows rows{{"memory", "bytes", "what"}};
  rows.push_back({"weights besides experts", plan.bytes("dense_bytes"), "in memory"});
  if (plan.number("experts") > 0)
    rows.push_back({"experts", plan.bytes("expert_bytes_resident"), where_experts_are(plan)});
  rows.push_back({"keys and values", plan.bytes("kv_bytes"),
                  plan.count("context") + " tokens x " + plan.count("parallel") + ", " + plan.text("kv_type")});
  if (plan.number("prefix_bytes") > 0)
    rows.push_back({"computed prefixes", plan.bytes("prefix_bytes"), "beginnings of prompts, for later ones"});
  rows.push_back(
      {"workspace", plan.bytes("workspace_bytes"), "prompts in passes of " + plan.count("prefill_chunk") + " tokens"});
  rows.push_back({"program and loading", plan.bytes("process_bytes"), ""});
  rows.push_back({"planned", plan.bytes("planned_bytes"), "at most at any time"});
  rows.push_back({"budget", plan.bytes("budget_bytes"), plan.text("note")});
  rows.push_back(
      {"minimum", plan.bytes("minimum_bytes"),
       plan.count("experts") == "0" ? "" : "runs, with nearly all experts read from disk; with less it may not"});
  return render_table(rows, 0);
}

std::string streaming_lines(const Plan& plan) {
  char share[16];
  std::snprintf(share, sizeof share, "%.0f %%", 100 * plan.number("expert_hit_rate"));
  std::string text = "All experts take " + plan.bytes("expert_bytes_total") + ". Were they wanted equally often, " +
                     share + " of the wanted ones would be in memory,\nand a token would read " +
                     plan.bytes("bytes_per_token") + ". Real texts prefer some experts, and read less.\n";
  text += "io " + plan.text("io") + ": " + plan.text("io_reason") + "\n";
  return text;
}

std::string speed_table(const Plan& plan) {
  Rows rows{{"bound on decoding", "", "measured now"}};
  char latency[32];
  std::snprintf(latency, sizeof latency, ", %.2f ms for one read", 1e3 * plan.disk("latency_seconds"));
  const std::string method = plan.reads_directly() ? " past the page cache" : " through the page cache";
  if (plan.streams())
    rows.push_back({"disk", speed(plan.bound("disk_tokens_per_second")),
                    per_second(plan.disk("bytes_per_second")) + method + latency});
  rows.push_back({"memory", speed(plan.bound("memory_tokens_per_second")),
                  per_second(plan.number("memory_bytes_per_second")) + ", " + plan.count("threads") + " threads"});
  if (plan.streams()) rows.push_back({"both", speed(plan.bound("tokens_per_second")), "one after the other"});
  return render_table(rows, 0);
}

std::string render(const json::object& report) {
  const Plan plan(report);
  std::string text = memory_table(plan) + "\n";
  if (plan.streams()) text += streaming_lines(plan) + "\n";
  return text + speed_table(plan);
}

}  // namespace

Status plan_command(const ReportArgs& args, StandardOutput& out) {
  const auto settings = load_settings(args.engine);
  if (!settings) return settings.error();
  api::Options options;
  options.settings = settings->chosen();
  const auto text = api::plan(args.engine.model, options);
  if (!text) return text.error();
  const auto report = parse_json(*text, "plan");
  if (!report) return report.error();
  return out.write(args.json ? dump_json(*report, 2) + "\n" : render(report->as_object()));
}

}  // namespace colibri::cli
