#include "metrics.h"

#include <gtest/gtest.h>

#include "log.h"

namespace colibri::server {
namespace {

std::string rendered(std::string_view json) {
  MetricsText text;
  const auto done = append_engine_metrics(json, text);
  return done ? text.take() : "error: " + done.error().message;
}

TEST(EngineMetrics, BecomeTheTextOfPrometheus) {
  EXPECT_EQ(rendered(R"([{"name": "tokens_total", "help": "Tokens\nof \\ all.", "kind": "counter",
                          "samples": [{"labels": {"kind": "a\"b\\c\nd"}, "value": 3}, {"labels": {}, "value": 0.5}]}])"),
            "# HELP colibri_tokens_total Tokens\\nof \\\\ all.\n# TYPE colibri_tokens_total counter\n"
            "colibri_tokens_total{kind=\"a\\\"b\\\\c\\nd\"} 3\ncolibri_tokens_total 0.5\n");
}

TEST(EngineMetrics, HistogramsAreCumulative) {
  EXPECT_EQ(rendered(R"([{"name": "s", "help": "h", "kind": "histogram",
                          "samples": [{"labels": {"l": "x"}, "bounds": [0.5, 1], "counts": [1, 2, 3], "sum": 7.25}]}])"),
            "# HELP colibri_s h\n# TYPE colibri_s histogram\ncolibri_s_bucket{l=\"x\",le=\"0.5\"} 1\n"
            "colibri_s_bucket{l=\"x\",le=\"1\"} 3\ncolibri_s_bucket{l=\"x\",le=\"+Inf\"} 6\n"
            "colibri_s_sum{l=\"x\"} 7.25\ncolibri_s_count{l=\"x\"} 6\n");
}

TEST(EngineMetrics, WhatIsNotUnderstoodIsAnError) {
  for (const char* bad :
       {"", "{}", "[1]", R"([{"name": "a b", "help": "", "kind": "gauge", "samples": []}])",
        R"([{"name": "a", "help": "", "kind": "summary", "samples": []}])",
        R"([{"name": "a", "help": "", "kind": "gauge", "samples": [{"labels": {}}]}])",
        R"([{"name": "a", "help": "", "kind": "gauge", "samples": [{"labels": {"a b": 1}, "value": 1}]}])",
        R"([{"name": "a", "help": "", "kind": "histogram", "samples": [{"bounds": [1], "counts": [1], "sum": 1}]}])"})
    EXPECT_TRUE(rendered(bad).starts_with("error: ")) << bad;
}

TEST(ServerMetrics, CountsByRouteAndStatus) {
  ServerMetrics metrics;
  metrics.count_request("GET", "/health", 200, 0.0001);
  metrics.count_request("GET", "/health", 200, 0.005);
  metrics.count_request("GET", "/health", 503, 1000);
  MetricsText out;
  metrics.append(out);
  const std::string text = out.take();
  for (const char* line : {"colibri_http_requests_total{method=\"GET\",route=\"/health\",status=\"200\"} 2\n",
                           "colibri_http_requests_total{method=\"GET\",route=\"/health\",status=\"503\"} 1\n",
                           "colibri_http_request_duration_seconds_bucket{route=\"/health\",le=\"0.001\"} 1\n",
                           "colibri_http_request_duration_seconds_bucket{route=\"/health\",le=\"0.005\"} 2\n",
                           "colibri_http_request_duration_seconds_bucket{route=\"/health\",le=\"300\"} 2\n",
                           "colibri_http_request_duration_seconds_bucket{route=\"/health\",le=\"+Inf\"} 3\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

TEST(LogLines, CannotBeForged) {
  RequestRecord record;
  record.id = "id";
  record.client = "1.2.3.4 status=200";
  record.method = "GET\n2026 info forged";
  record.path = "/\", \"status\": 200, \"x\": \"\xff\x1b[31m";
  record.status = 404;
  record.end = "done";
  for (const bool as_json : {false, true}) {
    const std::string line = format_request(as_json, "2026-02-03T04:05:06.789Z", record);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
    EXPECT_NE(line.find(as_json ? R"("status": 404)" : "status=404"), std::string::npos) << line;
    EXPECT_EQ(line.find(R"(, "status": 200)"), std::string::npos) << line;
    EXPECT_NE(line.find(R"("1.2.3.4 status=200")"), std::string::npos) << line;
  }
  EXPECT_EQ(format_line(false, "T", LogLevel::kWarn,
                        "a\nb\x1b"
                        "c"),
            "T warn a b c");
  EXPECT_EQ(format_line(true, "T", LogLevel::kWarn, "a\nb"),
            R"({"time": "T", "level": "warn", "message": "a\u000ab"})");
}

}  // namespace
}  // namespace colibri::server
