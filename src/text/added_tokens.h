// AddedTokens: tokens that are found in the text itself, before it is normalised and cut ("<|im_start|>", "<think>").
//
// The leftmost match counts, of several at one place the longest, as Hugging Face `tokenizers` does it.
// Ownership: a value, constant after finish(). Thread-safety: const functions may run in several threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/token_ids.h"
#include "text/string_set.h"

namespace colibri::text {

struct AddedToken {
  std::string content;
  TokenId id = -1;
  bool single_word = false;  ///< only where no word character stands before or behind it
  bool lstrip = false;       ///< takes the blanks in front of it
  bool rstrip = false;       ///< takes the blanks behind it
  bool normalized = false;   ///< is searched for in normalised text
  bool special = false;      ///< is left out of text on request, and not recognised in untrusted text
};

/// A stretch of text: an added token's place, or (id -1) what stands between.
struct TextSection {
  size_t begin, end;
  TokenId id;
};

class AddedTokens {
 public:
  /// An error when the content is longer than 1024 bytes; empty content and content that is there already are skipped.
  Status add(AddedToken token);
  /// `normalized_content(token)`: what a token whose flag says so looks like in normalised text.
  template <typename Normalize>
  void finish(Normalize normalized_content);

  /// Cuts `text` at the tokens that are searched for in raw text or in normalised text.
  void split(std::string_view text, bool normalized, bool parse_special, std::vector<TextSection>& out) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(TokenId id) const;

 private:
  bool stands_alone(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, uint32_t> by_content_;
  std::unordered_map<TokenId, uint32_t> by_id_;
  StringSet raw_, normalized_;
};

template <typename Normalize>
void AddedTokens::finish(Normalize normalized_content) {
  std::vector<std::pair<std::string, uint32_t>> raw, normalized;
  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].normalized) {
      normalized.emplace_back(normalized_content(tokens_[i].content), i);
    } else {
      raw.emplace_back(tokens_[i].content, i);
    }
  }
  raw_.build(std::move(raw));
  normalized_.build(std::move(normalized));
}

}  // namespace colibri::text
