#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

// Looking for the longest match at each place costs at most this much per byte of text.
constexpr size_t kLongestContent = 1024;

size_t blanks_before(std::string_view text, size_t pos, size_t limit) {
  while (pos > limit) {
    size_t start = previous_start(text, pos);
    const size_t previous = start;
    if (!is_whitespace(next_character(text, start))) break;
    pos = previous;
  }
  return pos;
}

size_t blanks_behind(std::string_view text, size_t pos) {
  for (size_t next = pos; pos < text.size() && is_whitespace(next_character(text, next));) pos = next;
  return pos;
}

}  // namespace

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

/// 0, the root, when there is no such child.
uint32_t StringSet::child(uint32_t node, uint8_t byte) const {
  const auto begin = edges_.begin() + nodes_[node].first_edge, end = begin + nodes_[node].n_edges;
  const auto edge = std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? edge->node : 0;
}

StringSet::Hit StringSet::longest_at(std::string_view text, size_t pos) const {
  Hit hit;
  uint32_t node = 0;
  for (size_t i = pos; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node == 0) break;
    if (nodes_[node].value >= 0) hit = {i + 1 - pos, static_cast<uint32_t>(nodes_[node].value)};
  }
  return hit;
}

Status AddedTokens::add(AddedToken token) {
  if (token.content.size() > kLongestContent) {
    return Error{ErrorCode::kInvalidModel, "added token \"" + token.content.substr(0, 40) + "...\" has " +
                                               std::to_string(token.content.size()) +
                                               " bytes; at most 1024 are supported"};
  }
  const auto index = static_cast<uint32_t>(tokens_.size());
  if (token.content.empty() || !by_content_.emplace(token.content, index).second) return {};
  by_id_.emplace(token.id, index);
  tokens_.push_back(std::move(token));
  return {};
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

bool AddedTokens::stands_alone(std::string_view text, size_t begin, size_t end) const {
  if (begin > 0) {
    size_t before = previous_start(text, begin);
    if (is_word(next_character(text, before))) return false;
  }
  return end == text.size() || !is_word(next_character(text, end));
}

void AddedTokens::split(std::string_view text, bool normalized, bool parse_special,
                        std::vector<TextSection>& out) const {
  const StringSet& set = normalized ? normalized_ : raw_;
  size_t done = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (!set.may_start(text[pos])) {
      ++pos;
      continue;
    }
    const StringSet::Hit hit = set.longest_at(text, pos);
    const size_t begin = pos, end = pos + hit.length;
    pos = hit.length == 0 ? pos + 1 : end;
    if (hit.length == 0) continue;
    const AddedToken& token = tokens_[hit.value];
    if (token.special && !parse_special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    const size_t from = token.lstrip ? std::max(done, blanks_before(text, begin, done)) : begin;
    // Blanks up to `done` are known: looking again would make a run of such tokens quadratic.
    const size_t to = token.rstrip ? blanks_behind(text, std::max(end, done)) : end;
    if (done < from) out.push_back({done, from, -1});
    out.push_back({from, to, token.id});
    done = to;
  }
  if (done < text.size()) out.push_back({done, text.size(), -1});
}

}  // namespace colibri::text
