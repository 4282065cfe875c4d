#include "text/tables.h"

#include <algorithm>

namespace colibri::text {

Result<std::unique_ptr<Tokenizer::Tables>> Tokenizer::Tables::create(TokenModel model,
                                                                     const std::vector<AddedToken>& added) {
  auto tables = std::make_unique<Tables>(std::move(model));
  for (const AddedToken& token : added) COLIBRI_TRY(tables->added.add(token));
  return tables;
}

TokenId Tokenizer::Tables::role_id(const Json* json) const {
  if (json && json->is_object()) json = json->find("content");
  if (!json || !json->is_string()) return -1;
  const AddedToken* token = added.find(json->as_string());
  return token ? token->id : model.vocabulary().find(json->as_string());
}

void Tokenizer::Tables::finish() {
  RegexWorkspace workspace;
  added.finish([&](std::string content) {
    normalizer.apply(content, workspace);
    return content;
  });
  vocab_size = static_cast<int32_t>(model.vocabulary().n_ids());
  longest_spelling = model.vocabulary().longest();
  for (const AddedToken& token : added.tokens()) {
    vocab_size = std::max(vocab_size, token.id + 1);
    longest_spelling = std::max(longest_spelling, token.content.size());
  }
}

}  // namespace colibri::text
