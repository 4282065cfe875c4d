// StringSet: finds which of many strings start at a place in a text; a trie with its edges in one sorted array.
//
// Used for added tokens, user-defined symbols and the vocabulary of a Unigram model. Ownership: a value, constant after
// build(). Thread-safety: const functions may run in several threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace colibri::text {

class StringSet {
 public:
  /// `strings`: each with its value; of equal ones the first counts.
  void build(std::vector<std::pair<std::string, uint32_t>> strings);
  struct Hit {
    size_t length = 0;
    uint32_t value = 0;
  };
  /// A length of 0: nothing starts there.
  Hit longest_at(std::string_view text, size_t pos) const;
  /// Calls visit(hit) for each string that starts at a place, from the shortest to the longest.
  template <typename Visit>
  void each_at(std::string_view text, size_t pos, Visit visit) const;
  bool may_start(char c) const { return first_[static_cast<uint8_t>(c)]; }

 private:
  struct Node {
    uint32_t first_edge = 0, n_edges = 0;
    int64_t value = -1;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0, the root, when there is none

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<bool, 256> first_{};
};

template <typename Visit>
void StringSet::each_at(std::string_view text, size_t pos, Visit visit) const {
  uint32_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node == 0) return;
    if (nodes_[node].value >= 0) visit(Hit{i + 1 - pos, static_cast<uint32_t>(nodes_[node].value)});
  }
}

}  // namespace colibri::text
