#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "text/byte_fallback.h"
#include "text/byte_level.h"
#include "text/ranked_merges.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

// Up to here scanning for the best merge is faster than a heap; the work is at most quadratic in this.
constexpr size_t kShort = 48;
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr int32_t kNone = -1, kGone = -2;
constexpr std::string_view kBlankMark = "\xE2\x96\x81";  // U+2581
constexpr size_t kMostGlued = 16;

uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t hash_pair(uint64_t pair) {
  const uint64_t product = pair * 0x9E3779B97F4A7C15ULL;
  return static_cast<size_t>(product ^ product >> 32);
}

/// Later candidates stand deeper in the heap: higher rank, then further right.
bool is_later(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, const BpeOptions& options)
    : vocabulary_(std::move(vocabulary)),
      options_(options),
      whole_(std::make_unique<std::atomic<uint8_t>[]>(vocabulary_.n_ids())) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string letter(byte_letter(static_cast<uint8_t>(byte)));
    byte_tokens_[byte] = vocabulary_.find(options.byte_level ? letter : fallback_spelling(byte));
  }
  std::vector<std::pair<std::string, uint32_t>> user_defined;
  for (const TokenId id : options.user_defined) {
    user_defined.emplace_back(vocabulary_.spelling(id), static_cast<uint32_t>(id));
  }
  user_defined_.build(std::move(user_defined));
}

Result<Bpe> Bpe::create(Vocabulary vocabulary, const std::vector<MergeRule>& rules, const BpeOptions& options,
                        const std::vector<std::string>& special) {
  Bpe bpe(std::move(vocabulary), options);
  bpe.forbid(special);
  COLIBRI_TRY(bpe.add_rules(rules));
  bpe.learn_cuts();
  return bpe;
}

Result<Bpe> Bpe::create_ranked(Vocabulary vocabulary, const std::vector<uint32_t>& ranks, const BpeOptions& options,
                               const std::vector<std::string>& special) {
  Bpe bpe(std::move(vocabulary), options);
  bpe.forbid(special);
  COLIBRI_TRY(bpe.add_ranked(ranks));
  bpe.learn_cuts();
  return bpe;
}

void Bpe::forbid(const std::vector<std::string>& special) {
  for (const std::string& spelling : special) {
    if (const TokenId id = vocabulary_.find(spelling); id >= 0) whole_[static_cast<size_t>(id)] = kForbidden;
  }
}

Status Bpe::add_ranked(const std::vector<uint32_t>& ranks) {
  COLIBRI_ASSIGN(const std::vector<RankedMerge> rules, ranked_merges(vocabulary_, ranks));
  merges_.resize(std::bit_ceil(2 * rules.size() + 2));
  for (const RankedMerge& rule : rules) {
    if (whole_[static_cast<size_t>(rule.result)] != kForbidden) {
      insert({pair_of(rule.left, rule.right), rule.rank, rule.result});
    }
  }
  return {};
}

Status Bpe::add_rules(const std::vector<MergeRule>& rules) {
  merges_.resize(std::bit_ceil(2 * rules.size() + 2));
  std::string both;
  for (size_t rank = 0; rank < rules.size(); ++rank) {
    const auto& [left, right] = rules[rank];
    both.assign(left).append(right);
    const TokenId a = vocabulary_.find(left), b = vocabulary_.find(right), id = vocabulary_.find(both);
    if (a < 0 || b < 0 || id < 0) {
      return Error{ErrorCode::kInvalidModel, "merge " + std::to_string(rank) + " (\"" + std::string(left) + "\" + \"" +
                                                 std::string(right) + "\") needs text that is not in the vocabulary"};
    }
    if (whole_[static_cast<size_t>(id)] == kForbidden) continue;
    insert({pair_of(a, b), static_cast<uint32_t>(rank), id});
  }
  return {};
}

/// The last of several rules for one pair counts.
void Bpe::insert(const Merge& merge) {
  const size_t mask = merges_.size() - 1;
  size_t i = hash_pair(merge.pair) & mask;
  while (merges_[i].pair != kNoPair && merges_[i].pair != merge.pair) i = (i + 1) & mask;
  merges_[i] = merge;
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  const uint64_t pair = pair_of(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t i = hash_pair(pair) & mask; merges_[i].pair != kNoPair; i = (i + 1) & mask) {
    if (merges_[i].pair == pair) return &merges_[i];
  }
  return nullptr;
}

/// SentencePiece-like models get a whole text as one piece, with U+2581 for blanks. When no token holds "x" and then a
/// mark, the text may be cut between the two without changing a token: words again, which the vocabulary knows.
void Bpe::learn_cuts() {
  if (options_.byte_level || options_.ignore_merges || vocabulary_.find(kBlankMark) < 0) return;
  for (const TokenId id : options_.user_defined) {
    if (!learn_glue(vocabulary_.spelling(id))) return;
  }
  for (const Merge& merge : merges_) {
    if (merge.pair == kNoPair) continue;
    const auto left = static_cast<TokenId>(merge.pair >> 32);
    // Tokens that stand for other text than their spelling would make the spelling lie about what it joins.
    if (left == options_.unknown || std::find(byte_tokens_.begin(), byte_tokens_.end(), left) != byte_tokens_.end())
      return;
    if (!learn_glue(vocabulary_.spelling(merge.id))) return;
  }
  cuts_ = true;
}

/// Notes the characters that a token holds in front of a mark. False when there are too many of them.
bool Bpe::learn_glue(std::string_view text) {
  for (size_t at = 0; (at = text.find(kBlankMark, at)) != std::string_view::npos; at += kBlankMark.size()) {
    if (at == 0) continue;
    const size_t start = previous_start(text, at);
    const std::string before(text.substr(start, at - start));
    if (before == kBlankMark || std::find(glued_.begin(), glued_.end(), before) != glued_.end()) continue;
    if (glued_.size() == kMostGlued) return false;
    glued_.push_back(before);
  }
  return true;
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, TokenIds& out) const {
  size_t begin = 0;
  for (size_t at = 1; cuts_ && (at = piece.find(kBlankMark, at)) != std::string_view::npos; at += kBlankMark.size()) {
    const size_t start = previous_start(piece, at);
    const std::string_view before = piece.substr(start, at - start);
    if (before == kBlankMark || std::find(glued_.begin(), glued_.end(), before) != glued_.end()) continue;
    encode_uncut(piece.substr(begin, at - begin), scratch, out);
    begin = at;
  }
  encode_uncut(piece.substr(begin), scratch, out);
}

void Bpe::encode_uncut(std::string_view piece, BpeScratch& scratch, TokenIds& out) const {
  const TokenId whole = whole_token(piece, scratch);
  std::atomic<uint8_t>* known = whole < 0 ? nullptr : &whole_[static_cast<size_t>(whole)];
  const uint8_t state = known ? known->load(std::memory_order_relaxed) : uint8_t{kNo};
  if (state == kYes || (known && options_.ignore_merges && state != kForbidden)) {
    out.push_back(whole);
    return;
  }
  TokenIds& ids = scratch.ids;
  ids.clear();
  options_.byte_level ? spell_bytes(piece, ids) : spell_characters(piece, ids);
  ids.size() <= kShort ? merge_short(ids) : merge_long(scratch);
  out.insert(out.end(), ids.begin(), ids.end());
  if (state == kUntried) {
    const bool same = ids.size() == 1 && ids[0] == whole;
    known->store(same ? kYes : kNo, std::memory_order_relaxed);
  }
}

/// The vocabulary entry with just this text, -1 when there is none.
TokenId Bpe::whole_token(std::string_view piece, BpeScratch& scratch) const {
  if (piece.size() > vocabulary_.longest()) return -1;
  if (!options_.byte_level) return vocabulary_.find(piece);
  scratch.spelling.clear();
  append_byte_letters(piece, scratch.spelling);
  return vocabulary_.find(scratch.spelling);
}

void Bpe::spell_bytes(std::string_view piece, TokenIds& ids) const {
  bool pending = false;  // an unknown token that the next one may be fused with
  for (const char c : piece) {
    const TokenId id = byte_tokens_[static_cast<uint8_t>(c)];
    if (id >= 0) ids.push_back(id);
    if (id < 0 && options_.unknown >= 0 && !(pending && options_.fuse_unknown)) ids.push_back(options_.unknown);
    pending = id < 0;
  }
}

/// As in `tokenizers`, an unknown token waits until a known character comes, even behind fallback bytes.
void Bpe::spell_characters(std::string_view piece, TokenIds& ids) const {
  bool pending = false;
  for (size_t pos = 0; pos < piece.size();) {
    const size_t start = pos;
    const TokenId id = character_token(piece, start, pos);
    const std::string_view character = piece.substr(start, pos - start);
    if (id >= 0) {
      if (pending) ids.push_back(options_.unknown);
      pending = false;
      ids.push_back(id);
    } else if (!append_fallback(character, ids) && options_.unknown >= 0) {
      if (pending && !options_.fuse_unknown) ids.push_back(options_.unknown);
      pending = true;
    }
  }
  if (pending) ids.push_back(options_.unknown);
}

/// The token of what stands at `start`, a user-defined symbol or one character, which ends at `end`; -1 when unknown.
TokenId Bpe::character_token(std::string_view piece, size_t start, size_t& end) const {
  if (user_defined_.may_start(piece[start])) {
    const StringSet::Hit hit = user_defined_.longest_at(piece, start);
    end = start + hit.length;
    if (hit.length > 0) return static_cast<TokenId>(hit.value);
  }
  next_character(piece, end);
  return vocabulary_.find(piece.substr(start, end - start));
}

bool Bpe::append_fallback(std::string_view character, TokenIds& ids) const {
  const auto token = [this](char c) { return byte_tokens_[static_cast<uint8_t>(c)]; };
  if (!options_.byte_fallback) return false;
  if (!std::all_of(character.begin(), character.end(), [&](char c) { return token(c) >= 0; })) return false;
  for (const char c : character) ids.push_back(token(c));
  return true;
}

/// Merges the pair of lowest rank, the leftmost of equals, until none is left. REQUIRES: at most kShort ids.
void Bpe::merge_short(TokenIds& ids) const {
  uint32_t ranks[kShort];  // of symbol i with its right neighbour
  TokenId results[kShort];
  const auto rate = [&](size_t i) {
    const Merge* merge = find_merge(ids[i], ids[i + 1]);
    ranks[i] = merge ? merge->rank : kNoRank;
    results[i] = merge ? merge->id : -1;
  };
  size_t n = ids.size();
  for (size_t i = 0; i + 1 < n; ++i) rate(i);
  while (n > 1) {
    const size_t best = static_cast<size_t>(std::min_element(ranks, ranks + n - 1) - ranks);
    if (ranks[best] == kNoRank) break;
    ids[best] = results[best];
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(best) + 2, ids.begin() + static_cast<std::ptrdiff_t>(n),
              ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --n;
    for (size_t i = best + 1; i + 1 < n; ++i) ranks[i] = ranks[i + 1], results[i] = results[i + 1];
    if (best > 0) rate(best - 1);
    if (best + 1 < n) rate(best);
  }
  ids.resize(n);
}

/// Puts the merge of a symbol with its right neighbour into the heap, if there is one.
void Bpe::offer(BpeScratch& scratch, int32_t position) const {
  const auto& symbols = scratch.symbols;
  const auto& left = symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const Merge* merge = find_merge(left.id, symbols[static_cast<size_t>(left.next)].id);
  if (!merge) return;
  scratch.heap.push_back({merge->rank, position, merge->id});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), is_later);
}

/// The same as merge_short with a linked list and a heap. A candidate is stale when its pair has changed since: then
/// the pair is longer, so its merge has another id.
void Bpe::merge_long(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto n = static_cast<int32_t>(scratch.ids.size());
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < n; ++i)
    symbols.push_back({scratch.ids[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : kNone});
  for (int32_t i = 0; i < n; ++i) offer(scratch, i);
  while (!heap.empty()) {
    const BpeScratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), is_later);
    heap.pop_back();
    auto& left = symbols[static_cast<size_t>(best.position)];
    if (left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    const Merge* merge = find_merge(left.id, right.id);
    if (!merge || merge->id != best.id) continue;
    left.id = best.id;
    left.next = right.next;
    right.next = kGone;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.position;
    if (left.previous >= 0) offer(scratch, left.previous);
    offer(scratch, best.position);
  }
  scratch.ids.clear();
  for (const auto& symbol : symbols) {
    if (symbol.next != kGone) scratch.ids.push_back(symbol.id);
  }
}

}  // namespace colibri::text
