#include "report.h"

#include <gtest/gtest.h>

#include "common/nearest.h"
#include "common/progress.h"
#include "measure.h"
#include "stats.h"

namespace colibri::cli {
namespace {

TEST(Report, ValuesStandInOneColumn) {
  EXPECT_EQ("family       qwen3_moe\nfile         1.5 MiB\nlist         1, 2\nnothing      -\nall of them  yes\n",
            render_report(json::object{{"family", "qwen3_moe"},
                                       {"file_bytes", 1572864},
                                       {"list", {1, 2}},
                                       {"nothing", nullptr},
                                       {"all_of_them", true}}));
}

TEST(Report, KeysThatAreDataAreLeftAsTheyAre) {
  EXPECT_EQ("types\n  Q8_0  1\ntop k  2\n",
            render_report(json::object{{"types", json::object{{"Q8_0", 1}}}, {"top_k", 2}}));
}

TEST(Report, NumbersAreShort) {
  EXPECT_EQ("a  0.1235\nb  129810\nc  1.235e-07\n",
            render_report(json::object{{"a", 0.123456}, {"b", 129809.51}, {"c", 1.23456e-7}}));
}

TEST(Report, ListsOfObjectsAreTables) {
  EXPECT_EQ("files\n  name  bytes\n  a     10 B\n  long  -\n",
            render_report(json::object{{"files", json::array{json::object{{"name", "a"}, {"bytes", 10}},
                                                             json::object{{"name", "long"}, {"bytes", nullptr}}}}}));
}

TEST(Report, ControlCharactersOfAFileDoNotReachTheTerminal) {
  EXPECT_EQ("name  ?[31mred?\n", render_report(json::object{{"name", "\x1b[31mred\x7f"}}));
}

TEST(Report, DeepValuesEndSomewhere) {
  json::value value = 1;
  for (int i = 0; i < 50; ++i) value = json::object{{"a", value}};
  EXPECT_NE("", render_report(value));
}

TEST(HumanBytes, UnitsArePowersOf1024) {
  EXPECT_EQ("0 B", human_bytes(0));
  EXPECT_EQ("1023 B", human_bytes(1023));
  EXPECT_EQ("1.0 KiB", human_bytes(1024));
  EXPECT_EQ("16384.0 PiB", human_bytes(UINT64_MAX));
}

TEST(Nearest, TypingMistakesFindTheirWord) {
  const std::vector<std::string> words{"threads", "isa", "io", "memory"};
  EXPECT_EQ("threads", nearest("thraeds", words));
  EXPECT_EQ("io", nearest("i", words));
  EXPECT_EQ("", nearest("x", {}));
  EXPECT_EQ(3U, edit_distance("", "abc"));
  EXPECT_EQ(1U, edit_distance("abc", "abd"));
}

TEST(Percentiles, AreNearestRanks) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const json::object result = percentiles(values);
  EXPECT_EQ(50.0, result.at("p50").as_double());
  EXPECT_EQ(90.0, result.at("p90").as_double());
  EXPECT_EQ(99.0, result.at("p99").as_double());
  EXPECT_EQ(100.0, result.at("max").as_double());
  EXPECT_EQ(0.0, percentiles({}).at("max").as_double());
}

TEST(Counts, AddUpThroughListsAndObjects) {
  json::value sum = json::object{{"a", {1, 2}}, {"b", 1.5}, {"s", "x"}};
  add_counts(sum, json::object{{"a", {10, 20}}, {"b", 1}, {"s", "y"}, {"more", 1}});
  EXPECT_EQ(json::value(json::object{{"a", {11, 22}}, {"b", 2.5}, {"s", "x"}}), sum);
}

}  // namespace
}  // namespace colibri::cli
