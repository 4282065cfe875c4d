#include "settings.h"

#include <algorithm>

#include "process.h"
#include "prompts.h"

namespace colibri::soak {
namespace {

// Beyond what the process holds already: from less than the demo model needs up to more than it takes in all.
constexpr int kLeastMebibytes = 8, kMostMebibytes = 48;

struct Axis {
  const char* key;
  std::vector<const char*> values;
};

const std::vector<Axis>& axes() {
  static const std::vector<Axis> kAxes = {
      {"expert_cache_policy", {"auto", "lru", "lfu"}},
      {"lfu_threshold", {"0", "1", "100"}},
      {"io", {"auto", "buffered", "direct"}},
      {"prefetch_weight", {"auto", "0", "0.5", "1"}},
      {"threads", {"1", "2", "3"}},
      {"parallel", {"1", "2", "4", "7"}},
      {"max_batch_size", {"1", "3", "64"}},
      {"prefill_chunk", {"auto", "1", "7", "64"}},
  };
  return kAxes;
}

int draw(std::mt19937_64& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

std::pair<std::string, std::string> draw_expert_memory(std::mt19937_64& random) {
  static constexpr const char* kEnds[] = {"0", "1%", "99%", "100%", "auto"};
  const int end = draw(random, 0, 14);
  if (end < 5) return {"expert_memory", kEnds[end]};
  return {"expert_memory", std::to_string(draw(random, 0, 100)) + "%"};
}

}  // namespace

std::string EngineSettings::text() const {
  std::string text;
  for (auto [key, value] : values) {
    std::replace(key.begin(), key.end(), '_', '-');
    text += (text.empty() ? "--" : " --") + key + " " + value;
  }
  return text;
}

EngineSettings draw_settings(std::mt19937_64& random, const std::string& heat_file) {
  EngineSettings settings;
  settings.values = {{"context", std::to_string(kContext)}};
  for (const Axis& axis : axes()) {
    const auto last = static_cast<int>(axis.values.size()) - 1;
    settings.values.emplace_back(axis.key, axis.values[static_cast<size_t>(draw(random, 0, last))]);
  }
  settings.values.emplace_back("heat_file", draw(random, 0, 1) == 0 ? "off" : heat_file);
  settings.values.push_back(draw_expert_memory(random));
  settings.may_not_fit = draw(random, 0, 3) == 0;
  if (!settings.may_not_fit) return settings;
  const int64_t bytes = count_holdings().rss_bytes + (int64_t{draw(random, kLeastMebibytes, kMostMebibytes)} << 20);
  settings.values.emplace_back("memory", std::to_string(bytes));
  return settings;
}

}  // namespace colibri::soak
