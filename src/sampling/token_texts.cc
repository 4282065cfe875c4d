#include "sampling/token_texts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

#include "text/utf8.h"

namespace colibri::sampling {
namespace {

using text::Utf8Step;

// Characters of a plain text; 0 when it is not plain.
uint16_t plain_characters(std::string_view bytes) {
  uint16_t n = 0;
  for (size_t at = 0; at < bytes.size(); ++n) {
    const auto byte = static_cast<uint8_t>(bytes[at]);
    if (byte < 0x20 || byte == '"' || byte == '\\') return 0;
    const Utf8Step step = text::utf8_step(bytes.substr(at));
    if (step.kind != Utf8Step::kCharacter) return 0;
    at += step.length;
  }
  return n;
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

// `ids` in the order of their bytes.
TokenTrie make_trie(const TokenTexts& texts, const std::vector<TokenId>& ids) {
  TokenTrie trie;
  std::vector<uint32_t> path;  // nodes from the root to the last token
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) trie.nodes[path.back()].end = static_cast<uint32_t>(trie.nodes.size());
  };
  std::string_view last;
  for (const TokenId id : ids) {
    const std::string_view bytes = texts.bytes(id);
    close(common_prefix(last, bytes));
    while (path.size() < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[path.size()]);
      path.push_back(static_cast<uint32_t>(trie.nodes.size()));
      trie.nodes.push_back({byte, static_cast<uint16_t>(path.size()), 0, static_cast<uint32_t>(trie.tokens.size())});
    }
    trie.tokens.push_back(id);
    last = bytes;
  }
  close(0);
  const auto n = static_cast<uint32_t>(trie.nodes.size());
  trie.nodes.push_back({0, 0, n, static_cast<uint32_t>(trie.tokens.size())});
  return trie;
}

// Bytes that a constrained text may need at any point: printable ASCII and the parts of longer characters. Among
// alternatives to the others (control characters) there is always one of these.
bool is_needed(unsigned byte) {
  return (byte >= 0x20 && byte < 0x7F) || (byte >= 0x80 && byte < 0xC0) || (byte >= 0xC2 && byte < 0xF5);
}

}  // namespace

TokenTexts TokenTexts::build(const text::Tokenizer& tokenizer, std::span<const TokenId> end_ids) {
  std::vector<Token> tokens(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    tokens[i].special = tokenizer.is_special(id);
    tokens[i].bytes = tokens[i].special ? std::string(tokenizer.spelling(id)) : tokenizer.bytes(id);
  }
  return build(tokens, end_ids);
}

TokenTexts TokenTexts::build(const std::vector<Token>& tokens, std::span<const TokenId> end_ids) {
  TokenTexts texts;
  texts.vocab_size_ = static_cast<int32_t>(tokens.size());
  texts.plain_ = TokenMask(texts.vocab_size_);
  texts.plain_characters_.resize(tokens.size());
  for (const TokenId id : end_ids)
    if (id >= 0 && id < texts.vocab_size_) texts.end_ids_.push_back(id);
  for (size_t i = 0; i < tokens.size(); ++i) texts.add_token(static_cast<TokenId>(i), tokens[i]);
  texts.finish();
  return texts;
}

void TokenTexts::add_token(TokenId id, const Token& token) {
  if (is_end(id)) {
    offsets_.push_back(offsets_.back());
    return;
  }
  if (token.special) {
    special_.emplace(token.bytes, id);
  } else if (token.bytes.size() <= kLongestToken) {
    text_ += token.bytes;
  }
  offsets_.push_back(static_cast<uint32_t>(text_.size()));
  const std::string_view text = bytes(id);
  longest_ = std::max(longest_, text.size());
  const uint16_t characters = plain_characters(text);
  if (characters == 0) return;
  plain_characters_[static_cast<size_t>(id)] = characters;
  plain_.set(id);
  longest_plain_ = std::max<size_t>(longest_plain_, characters);
}

void TokenTexts::finish() {
  std::vector<TokenId> ids(static_cast<size_t>(vocab_size_));
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](TokenId id) { return bytes(id).empty(); });
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  all_ = make_trie(*this, ids);
  std::erase_if(ids, [&](TokenId id) { return plain_.test(id); });
  odd_ = make_trie(*this, ids);
}

bool TokenTexts::is_end(TokenId id) const { return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end(); }

TokenId TokenTexts::special(std::string_view spelling) const {
  const auto found = special_.find(std::string(spelling));
  return found == special_.end() ? -1 : found->second;
}

Status TokenTexts::can_spell_everything() const {
  std::array<bool, 256> spelled{};
  for (size_t i = 0; i < all_.size(); i = all_.nodes[i].end)
    if (!all_.tokens_of(i).empty()) spelled[all_.nodes[i].byte] = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (!is_needed(byte) || spelled[byte]) continue;
    char text[8];
    std::snprintf(text, sizeof text, "0x%02X", byte);
    return Error{ErrorCode::kUnsupported,
                 "answers of a given form need a token for each byte of text; this model's "
                 "tokenizer has none for " +
                     std::string(text)};
  }
  return {};
}

std::vector<TokenId> TokenTexts::split_plain(uint8_t byte, TokenMask& mask) const {
  std::vector<TokenId> others;
  for (TokenId id = 0; id < vocab_size_; ++id) {
    const std::string_view text = bytes(id);
    if (plain_.test(id) && text.find(static_cast<char>(byte)) == std::string_view::npos) {
      mask.set(id);
    } else if (!text.empty()) {
      others.push_back(id);
    }
  }
  return others;
}

void TokenTexts::add_plain_up_to(int64_t n, TokenMask& mask) const {
  if (n >= static_cast<int64_t>(longest_plain_)) return mask.add(plain_);
  if (n <= 0) return;
  for (size_t i = 0; i < plain_characters_.size(); ++i)
    if (plain_characters_[i] != 0 && plain_characters_[i] <= n) mask.set(static_cast<TokenId>(i));
}

}  // namespace colibri::sampling
