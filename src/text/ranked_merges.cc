#include "text/ranked_merges.h"

#include <algorithm>
#include <string>

#include "text/utf8.h"

namespace colibri::text {
namespace {

// The work is quadratic in this. Published files have entries of up to 256 bytes.
constexpr size_t kLongestEntry = 1024;

/// Merges inside the text of one entry until two symbols are left.
class Inside {
 public:
  Inside(const Vocabulary& vocabulary, const std::vector<uint32_t>& ranks) : vocabulary_(vocabulary), ranks_(ranks) {}

  /// False when the text never becomes two entries.
  bool run(std::string_view text, RankedMerge& rule) {
    split(text);
    while (ranks_of_pairs_.size() > 1) {
      const auto best = std::min_element(ranks_of_pairs_.begin(), ranks_of_pairs_.end());
      if (*best == kUnranked) return false;
      join(static_cast<size_t>(best - ranks_of_pairs_.begin()));
    }
    if (ranks_of_pairs_.empty()) return false;
    rule.left = entry(borders_[0], borders_[1]);
    rule.right = entry(borders_[1], borders_[2]);
    return rule.left >= 0 && rule.right >= 0;
  }

 private:
  /// The entry with the text [begin, end), -1 when there is none that text can become.
  TokenId entry(size_t begin, size_t end) const {
    const TokenId id = vocabulary_.find(text_.substr(begin, end - begin));
    return id < 0 || ranks_[static_cast<size_t>(id)] == kUnranked ? -1 : id;
  }

  /// Of symbol i with its right neighbour.
  uint32_t rank_of_pair(size_t i) const {
    const TokenId id = entry(borders_[i], borders_[i + 2]);
    return id < 0 ? kUnranked : ranks_[static_cast<size_t>(id)];
  }

  void split(std::string_view text) {
    text_ = text;
    borders_.assign(1, 0);
    ranks_of_pairs_.clear();
    for (size_t pos = 0; pos < text.size();) {
      next_character(text, pos);
      borders_.push_back(pos);
    }
    for (size_t i = 0; i + 2 < borders_.size(); ++i) ranks_of_pairs_.push_back(rank_of_pair(i));
  }

  void join(size_t i) {
    borders_.erase(borders_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks_of_pairs_.erase(ranks_of_pairs_.begin() + static_cast<std::ptrdiff_t>(i));
    if (i > 0) ranks_of_pairs_[i - 1] = rank_of_pair(i - 1);
    if (i < ranks_of_pairs_.size()) ranks_of_pairs_[i] = rank_of_pair(i);
  }

  const Vocabulary& vocabulary_;
  const std::vector<uint32_t>& ranks_;
  std::string_view text_;
  std::vector<size_t> borders_;           // of the symbols: n + 1
  std::vector<uint32_t> ranks_of_pairs_;  // n - 1
};

}  // namespace

Result<std::vector<RankedMerge>> ranked_merges(const Vocabulary& vocabulary, const std::vector<uint32_t>& ranks) {
  std::vector<RankedMerge> rules;
  rules.reserve(vocabulary.n_entries());
  Inside inside(vocabulary, ranks);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = vocabulary.spelling(id);
    if (ranks[i] == kUnranked || vocabulary.find(text) != id) continue;
    if (text.size() > kLongestEntry) {
      return Error{ErrorCode::kInvalidModel, "token " + std::to_string(id) + " has " + std::to_string(text.size()) +
                                                 " bytes; at most 1024 are supported"};
    }
    RankedMerge rule{-1, -1, id, ranks[i]};
    if (inside.run(text, rule)) rules.push_back(rule);
  }
  return rules;
}

}  // namespace colibri::text
