// colibri-replay TRACE...: hit rates of the expert cache for recorded routing, per policy and capacity.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/json.h"
#include "replay/replay.h"

namespace colibri::replay {
namespace {

struct Options {
  std::vector<std::string> traces;
  std::vector<double> capacities{10, 25, 50, 75};  // percent
  int64_t step_positions = 0;
  bool json = false;
};

struct Row {
  const char* policy;
  std::vector<Score> scores;  // [capacities]
};

Result<Trace> read_all(const Options& options) {
  Trace all;
  for (const std::string& path : options.traces) {
    COLIBRI_ASSIGN(Trace trace, read_trace(path, options.step_positions));
    if (all.steps.empty())
      all = std::move(trace);
    else
      COLIBRI_TRY(append(all, std::move(trace)).with_context(path));
  }
  return all;
}

// One layer's choice for one token must fit, as in the store.
int64_t slots_of(const Trace& trace, double percent) {
  const auto slots = static_cast<int64_t>(std::lround(percent / 100 * static_cast<double>(trace.all_experts())));
  return std::max<int64_t>(slots, trace.top_k);
}

std::vector<Row> replay_all(const Trace& trace, const Options& options) {
  std::vector<Row> rows{{"lru", {}}, {"lfu", {}}, {"auto", {}}, {"belady", {}}};
  for (const double percent : options.capacities) {
    const int64_t slots = slots_of(trace, percent);
    rows[0].scores.push_back(replay(trace, slots, store::PolicyKind::kLru));
    rows[1].scores.push_back(replay(trace, slots, store::PolicyKind::kLfu));
    rows[2].scores.push_back(replay(trace, slots, store::PolicyKind::kAuto));
    rows[3].scores.push_back(replay_optimum(trace, slots));
  }
  return rows;
}

void print_part(const char* title, const std::vector<Row>& rows, const Options& options, Hits Score::*part) {
  if ((rows[0].scores[0].*part).wanted == 0) return;
  std::printf("%-14s", title);
  for (const double percent : options.capacities) std::printf("%7g%%", percent);
  std::printf("\n");
  for (const Row& row : rows) {
    std::printf("  %-12s", row.policy);
    for (const Score& score : row.scores) std::printf("%8.1f", 100 * (score.*part).rate());
    std::printf("\n");
  }
}

void print_table(const Trace& trace, const std::vector<Row>& rows, const Options& options) {
  std::printf("%zu steps, %d layers of %d experts, top %d; hit rate in percent by share of all experts that fits\n",
              trace.steps.size(), trace.n_layers, trace.n_experts, trace.top_k);
  print_part("all steps", rows, options, &Score::all);
  print_part("decode", rows, options, &Score::decode);
  print_part("after prompts", rows, options, &Score::after_prompt);
}

Json json_of(const Hits& hits) {
  Json json;
  json.set("wanted", hits.wanted);
  json.set("hits", hits.hits);
  return json;
}

void print_json(const Trace& trace, const std::vector<Row>& rows, const Options& options) {
  Json all;
  all.set("layers", trace.n_layers);
  all.set("experts", trace.n_experts);
  all.set("top_k", trace.top_k);
  all.set("steps", static_cast<int64_t>(trace.steps.size()));
  Json results = Json::Array{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.scores.size(); ++i) {
      Json one;
      one.set("policy", row.policy);
      one.set("capacity_percent", options.capacities[i]);
      one.set("slots", slots_of(trace, options.capacities[i]));
      one.set("all", json_of(row.scores[i].all));
      one.set("decode", json_of(row.scores[i].decode));
      one.set("after_prompt", json_of(row.scores[i].after_prompt));
      results.push_back(std::move(one));
    }
  all.set("results", std::move(results));
  std::printf("%s\n", all.dump(1).c_str());
}

int run(const Options& options) {
  const Result<Trace> trace = read_all(options);
  if (!trace) {
    std::fprintf(stderr, "colibri-replay: %s\n", trace.error().message.c_str());
    return static_cast<int>(trace.error().code);
  }
  const std::vector<Row> rows = replay_all(*trace, options);
  (options.json ? print_json : print_table)(*trace, rows, options);
  if (std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "colibri-replay: standard output: cannot write\n");
  return static_cast<int>(ErrorCode::kIo);
}

}  // namespace
}  // namespace colibri::replay

int main(int argc, char** argv) {
  colibri::replay::Options options;
  CLI::App app(
      "Replays routing traces (colibri run --trace) against the policies of the expert cache and the optimum.");
  app.add_option("TRACE", options.traces, "traces, replayed one after the other with one cache")->required();
  app.add_option("--capacity", options.capacities, "percent of all experts that fit, with commas [10,25,50,75]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--step-positions", options.step_positions, "cut steps of many positions into steps of so many")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24));
  app.add_flag("--json", options.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(colibri::ErrorCode::kUsage);
  }
  return colibri::replay::run(options);
}
