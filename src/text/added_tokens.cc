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
