// TokenTexts: the bytes of every token of a vocabulary, arranged as a trie, so that a constraint finds in one walk
// which tokens it allows.
//
// Built once per engine from its tokenizer. Special tokens and end-of-text tokens have no bytes here: a constraint
// reaches the former by id alone (special()), the latter when the text may end. A token is plain when its bytes are
// whole characters that stand for themselves in a JSON string: most tokens are, and inside strings they need no walk.
// Thread-safety: immutable after build().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "sampling/token_mask.h"
#include "text/tokenizer.h"

namespace colibri::sampling {

/// Nodes in depth-first order: a node's descendants are those from the next one to before `end`.
struct TokenTrie {
  struct Node {
    uint8_t byte;
    uint16_t depth;        ///< bytes from the root to here, at least 1
    uint32_t end;          ///< the node behind the last descendant
    uint32_t first_token;  ///< its tokens are those from here to before the next node's first_token
  };
  std::vector<Node> nodes;  ///< one more than there are, for its first_token
  std::vector<TokenId> tokens;

  size_t size() const { return nodes.empty() ? 0 : nodes.size() - 1; }
  std::span<const TokenId> tokens_of(size_t node) const {
    return {tokens.data() + nodes[node].first_token, nodes[node + 1].first_token - nodes[node].first_token};
  }
};

/// Bytes longer than this are no part of any constrained text: such a token is never allowed.
inline constexpr size_t kLongestToken = 1024;

class TokenTexts {
 public:
  struct Token {
    std::string bytes;
    bool special = false;  ///< `bytes` is its spelling, not its text
  };
  /// `end_ids`: tokens that end a text.
  static TokenTexts build(const text::Tokenizer& tokenizer, std::span<const TokenId> end_ids);
  static TokenTexts build(const std::vector<Token>& tokens, std::span<const TokenId> end_ids);
  /// No tokens: for compiling a constraint only to check it.
  TokenTexts() = default;

  int32_t vocab_size() const { return vocab_size_; }
  std::string_view bytes(TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  std::span<const TokenId> end_ids() const { return end_ids_; }
  bool is_end(TokenId id) const;
  /// The special token with this spelling, -1: none.
  TokenId special(std::string_view spelling) const;
  /// kUnsupported when a byte of text has no token of its own: then a text that was begun could not always be ended.
  Status can_spell_everything() const;

  const TokenTrie& all() const { return all_; }
  const TokenTrie& odd() const { return odd_; }  ///< of the tokens that are not plain
  const TokenMask& plain() const { return plain_; }
  /// Adds the plain tokens of at most `n` characters.
  void add_plain_up_to(int64_t n, TokenMask& mask) const;
  /// Adds the plain tokens without this byte; returns the tokens with bytes that were left out.
  std::vector<TokenId> split_plain(uint8_t byte, TokenMask& mask) const;
  size_t longest() const { return longest_; }  ///< bytes of the longest token

 private:
  void add_token(TokenId id, const Token& token);
  void finish();

  int32_t vocab_size_ = 0;
  std::string text_;
  std::vector<uint32_t> offsets_ = {0};
  std::vector<TokenId> end_ids_;
  std::unordered_map<std::string, TokenId> special_;
  TokenTrie all_, odd_;
  TokenMask plain_;
  std::vector<uint16_t> plain_characters_;  // per id; 0: not plain
  size_t longest_ = 0, longest_plain_ = 0;
};

}  // namespace colibri::sampling
