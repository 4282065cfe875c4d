#include "text/added_token_list.h"

#include <algorithm>
#include <charconv>

#include "text/component.h"

namespace colibri::text {
namespace {

// Published vocabularies are padded by at most a few thousand ids; ids far beyond are damage.
constexpr int64_t kMostBeyond = 1 << 20;

Result<AddedToken> read_added_token(const Json& json) {
  COLIBRI_ASSIGN(std::string content, string_member(json, "content"));
  AddedToken token;
  token.content = std::move(content);
  token.special = flag(json, "special", false);
  token.normalized = flag(json, "normalized", !token.special);
  token.single_word = flag(json, "single_word", false);
  token.lstrip = flag(json, "lstrip", false);
  token.rstrip = flag(json, "rstrip", false);
  return token;
}

/// The members of added_tokens_decoder in the order of their ids.
Result<std::vector<std::pair<int64_t, const Json*>>> by_id(const Json& decoder) {
  std::vector<std::pair<int64_t, const Json*>> entries;
  for (const auto& [key, entry] : decoder.as_object()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      return Error{ErrorCode::kInvalidModel, "tokenizer_config.json: added_tokens_decoder: \"" + key + "\" is no id"};
    }
    entries.emplace_back(id, &entry);
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return entries;
}

}  // namespace

void AddedTokenList::add(AddedToken token) {
  if (token.content.empty() || contents_.count(token.content)) return;
  if (ids_ == Ids::kOfVocabulary || token.id < 0) token.id = vocabulary_.find(token.content);
  if (token.id < 0) token.id = std::max(largest_ + 1, static_cast<TokenId>(vocabulary_.n_entries()));
  largest_ = std::max(largest_, token.id);
  contents_.emplace(token.content, token.id);
  tokens_.push_back(std::move(token));
}

Status AddedTokenList::add(const Json& entry, int64_t id) {
  COLIBRI_ASSIGN(AddedToken token, read_added_token(entry));
  if (token.content.empty()) {
    return Error{ErrorCode::kInvalidModel,
                 "added_tokens: the token with the id " + (id < 0 ? "?" : std::to_string(id)) + " has no content"};
  }
  if (ids_ == Ids::kNamed) {
    if (id < 0 || id >= static_cast<int64_t>(vocabulary_.n_ids()) + kMostBeyond) {
      return Error{ErrorCode::kInvalidModel, "added token \"" + token.content + "\" has the id " + std::to_string(id) +
                                                 ", but the vocabulary has " + std::to_string(vocabulary_.n_ids()) +
                                                 " tokens"};
    }
    token.id = static_cast<TokenId>(id);
  }
  add(std::move(token));
  return {};
}

/// A token that the configuration gives a role: special, provided that it has an id.
void AddedTokenList::add_role(const Json* json) {
  if (json && json->is_object()) json = json->find("content");
  if (!json || !json->is_string() || vocabulary_.find(json->as_string()) < 0) return;
  AddedToken token;
  token.content = json->as_string();
  token.special = true;
  add(std::move(token));
}

Status AddedTokenList::add_from_config(const Json& config) {
  if (const Json* decoder = config.find_value("added_tokens_decoder"); decoder && decoder->is_object()) {
    COLIBRI_ASSIGN(const auto entries, by_id(*decoder));
    for (const auto& [id, entry] : entries) COLIBRI_TRY(add(*entry, id));
  }
  for (const char* role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    add_role(config.find(role));
  }
  if (const Json* more = config.find("additional_special_tokens"); more && more->is_array()) {
    for (const Json& token : more->as_array()) add_role(&token);
  }
  return {};
}

std::vector<std::string> AddedTokenList::special() const {
  std::vector<std::string> out;
  for (const AddedToken& token : tokens_) {
    if (token.special) out.push_back(token.content);
  }
  return out;
}

}  // namespace colibri::text
