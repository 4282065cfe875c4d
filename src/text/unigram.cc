#include "text/unigram.h"

#include <algorithm>
#include <cmath>

#include "text/byte_fallback.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

constexpr size_t kLongestEntry = 1024;

Status check(const Vocabulary& vocabulary, const std::vector<double>& scores) {
  for (size_t id = 0; id < scores.size(); ++id) {
    if (std::isnan(scores[id])) {
      return Error{ErrorCode::kInvalidModel, "the score of token " + std::to_string(id) + " is no number"};
    }
  }
  if (vocabulary.longest() <= kLongestEntry) return {};
  return Error{ErrorCode::kInvalidModel,
               "a token has " + std::to_string(vocabulary.longest()) + " bytes; at most 1024 are supported"};
}

}  // namespace

Unigram::Unigram(Vocabulary vocabulary, std::vector<double> scores, const UnigramOptions& options)
    : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  byte_tokens_.fill(-1);
  if (options.byte_fallback) byte_tokens_ = fallback_tokens(vocabulary_);
}

Result<Unigram> Unigram::create(Vocabulary vocabulary, std::vector<double> scores, const std::vector<bool>& usable,
                                const UnigramOptions& options) {
  COLIBRI_TRY(check(vocabulary, scores));
  Unigram unigram(std::move(vocabulary), std::move(scores), options);
  std::vector<std::pair<std::string, uint32_t>> entries;
  for (size_t id = 0; id < usable.size(); ++id) {
    const std::string_view spelling = unigram.vocabulary_.spelling(static_cast<TokenId>(id));
    if (usable[id] && !spelling.empty()) entries.emplace_back(spelling, static_cast<uint32_t>(id));
  }
  unigram.entries_.build(std::move(entries));
  return unigram;
}

/// Fills in the best way to every place in `piece`.
void Unigram::search(std::string_view piece, UnigramScratch& scratch) const {
  auto& nodes = scratch.nodes;
  nodes.assign(piece.size() + 1, {0, -1, -1});
  for (size_t start = 0; start < piece.size();) {
    size_t next = start;
    next_character(piece, next);
    const double so_far = nodes[start].score;
    bool single = false;
    const auto offer = [&](size_t end, double score, TokenId id) {
      UnigramScratch::Node& node = nodes[end];
      const double exact = so_far + score;
      const double sum = options_.single_precision ? static_cast<double>(static_cast<float>(exact)) : exact;
      if (node.start < 0 || sum > node.score) node = {sum, static_cast<int32_t>(start), id};
    };
    entries_.each_at(piece, start, [&](StringSet::Hit hit) {
      offer(start + hit.length, scores_[hit.value], static_cast<TokenId>(hit.value));
      single = single || start + hit.length == next;
    });
    if (!single) offer(next, options_.unknown_score, -1);
    start = next;
  }
}

void Unigram::encode(std::string_view piece, UnigramScratch& scratch, TokenIds& out) const {
  search(piece, scratch);
  // Backwards along the best way; neighbouring unknown characters become one stretch.
  TokenIds& ids = scratch.ids;
  ids.clear();
  for (size_t end = piece.size(); end > 0;) {
    size_t start = static_cast<size_t>(scratch.nodes[end].start);
    if (scratch.nodes[end].id >= 0) {
      ids.push_back(scratch.nodes[end].id);
    } else {
      while (start > 0 && scratch.nodes[start].id < 0) start = static_cast<size_t>(scratch.nodes[start].start);
      const size_t before = ids.size();
      append_unknown(piece.substr(start, end - start), ids);
      std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
    }
    end = start;
  }
  out.insert(out.end(), ids.rbegin(), ids.rend());
}

void Unigram::append_unknown(std::string_view text, TokenIds& out) const {
  const auto token = [this](char c) { return byte_tokens_[static_cast<uint8_t>(c)]; };
  if (std::all_of(text.begin(), text.end(), [&](char c) { return token(c) >= 0; })) {
    for (const char c : text) out.push_back(token(c));
  } else if (options_.unknown >= 0) {
    out.push_back(options_.unknown);
  }
}

}  // namespace colibri::text
