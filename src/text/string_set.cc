#include "text/string_set.h"

#include <algorithm>

namespace colibri::text {

void StringSet::build(std::vector<std::pair<std::string, uint32_t>> strings) {
  strings.erase(std::remove_if(strings.begin(), strings.end(), [](const auto& s) { return s.first.empty(); }),
                strings.end());
  std::stable_sort(strings.begin(), strings.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Nodes in breadth-first order; node i stands for the strings [begin, end), which share `depth` bytes.
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, strings.size(), 0}};
  nodes_.assign(1, {});
  for (size_t node = 0; node < ranges.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    if (at < end && strings[at].first.size() == depth) nodes_[node].value = strings[at].second;
    while (at < end && strings[at].first.size() == depth) ++at;
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (at < end) {
      const size_t begin = at;
      const char byte = strings[begin].first[depth];
      while (at < end && strings[at].first[depth] == byte) ++at;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({begin, at, depth + 1});
    }
    nodes_[node].n_edges = static_cast<uint32_t>(edges_.size()) - nodes_[node].first_edge;
  }
  for (uint32_t i = 0; i < nodes_[0].n_edges; ++i) first_[edges_[i].byte] = true;
}

uint32_t StringSet::child(uint32_t node, uint8_t byte) const {
  if (nodes_.empty()) return 0;
  const auto begin = edges_.begin() + nodes_[node].first_edge, end = begin + nodes_[node].n_edges;
  const auto edge = std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? edge->node : 0;
}

StringSet::Hit StringSet::longest_at(std::string_view text, size_t pos) const {
  Hit longest;
  each_at(text, pos, [&](Hit hit) { longest = hit; });
  return longest;
}

}  // namespace colibri::text
