// Tokenizer::from_json: a tokenizer from a tokenizer.json and a tokenizer_config.json.
#include <algorithm>
#include <charconv>

#include "base/foreign_text.h"
#include "text/component.h"
#include "text/post_processor.h"
#include "text/tables.h"

namespace colibri::text {
namespace {

Error invalid(const std::string& what) { return {ErrorCode::kInvalidModel, what}; }

/// A file names each of its ids, so no id is larger than the file: a bound for the tables that are indexed by id.
Result<Vocabulary> read_vocabulary(const Json& model, size_t file_bytes) {
  const Json* entries = model.find("vocab");
  if (!entries || !entries->is_object()) return invalid("model lacks the object vocab");
  int64_t largest = -1;
  size_t n_bytes = 0;
  for (const auto& [spelling, id] : entries->as_object()) {
    if (!id.is_int() || id.as_int() < 0 ||
        id.as_int() >= static_cast<int64_t>(std::min<size_t>(file_bytes, INT32_MAX))) {
      return invalid("vocab: \"" + spelling + "\" has the id " + id.dump());
    }
    largest = std::max(largest, id.as_int());
    n_bytes += spelling.size();
  }
  Vocabulary vocabulary(static_cast<size_t>(largest + 1), entries->as_object().size(), n_bytes);
  for (const auto& [spelling, id] : entries->as_object()) {
    if (!vocabulary.insert(static_cast<TokenId>(id.as_int()), spelling)) {
      return invalid("vocab: two entries have the id " + id.dump() + ", one is \"" + spelling + "\"");
    }
  }
  return vocabulary;
}

/// "a b" or ["a", "b"].
Result<MergeRule> read_merge(const Json& merge) {
  if (merge.is_array() && merge.as_array().size() == 2) {
    const Json &left = merge.as_array()[0], &right = merge.as_array()[1];
    if (left.is_string() && right.is_string()) return MergeRule{left.as_string(), right.as_string()};
  }
  if (merge.is_string()) {
    const std::string_view text = merge.as_string();
    const size_t blank = text.find(' ');
    if (blank != std::string_view::npos && text.find(' ', blank + 1) == std::string_view::npos) {
      return MergeRule{text.substr(0, blank), text.substr(blank + 1)};
    }
  }
  return invalid("merges: " + merge.dump() + " is not two parts");
}

Result<std::vector<MergeRule>> read_merges(const Json& model) {
  const Json* merges = model.find("merges");
  if (!merges || !merges->is_array()) return invalid("model lacks the list merges");
  std::vector<MergeRule> rules;
  rules.reserve(merges->as_array().size());
  for (const Json& merge : merges->as_array()) {
    COLIBRI_ASSIGN(const MergeRule rule, read_merge(merge));
    rules.push_back(rule);
  }
  return rules;
}

bool is_nothing(const Json* value) {
  return !value || value->is_null() || *value == Json("") || (value->is_number() && value->as_double() == 0);
}

Result<BpeOptions> read_options(const Json& model, const Vocabulary& vocabulary, bool byte_level) {
  if (const std::string type = component_type(model); type != "BPE" && model.find("type")) {
    return Error{ErrorCode::kUnsupported, "model type \"" + type + "\" is not supported; BPE is"};
  }
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!is_nothing(model.find(key))) {
      return Error{ErrorCode::kUnsupported,
                   std::string("model: ") + key + " " + model.find(key)->dump() + " is not supported"};
    }
  }
  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = !byte_level && flag(model, "byte_fallback", false);
  options.fuse_unknown = flag(model, "fuse_unk", false);
  options.ignore_merges = flag(model, "ignore_merges", false);
  if (const Json* unknown = model.find("unk_token"); unknown && unknown->is_string()) {
    options.unknown = vocabulary.find(unknown->as_string());
  }
  return options;
}

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

/// Added tokens with the ids that `tokenizers` gives them: that of the vocabulary, else the next free one. The ids that
/// the files name are not looked at, as there.
class AddedTokenList {
 public:
  explicit AddedTokenList(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  void add(AddedToken token) {
    if (token.content.empty() || contents_.count(token.content)) return;
    token.id = vocabulary_.find(token.content);
    if (token.id < 0) token.id = std::max(largest_ + 1, static_cast<TokenId>(vocabulary_.n_entries()));
    largest_ = std::max(largest_, token.id);
    contents_.emplace(token.content, token.id);
    tokens_.push_back(std::move(token));
  }

  /// A token that the configuration gives a role: special, provided that it has an id.
  void add_role(const Json* json) {
    if (json && json->is_object()) json = json->find("content");
    if (!json || !json->is_string() || vocabulary_.find(json->as_string()) < 0) return;
    AddedToken token;
    token.content = json->as_string();
    token.special = true;
    add(std::move(token));
  }

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  const Vocabulary& vocabulary_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, TokenId> contents_;
  TokenId largest_ = -1;
};

Status add_from_tokenizer(const Json& root, AddedTokenList& list) {
  const Json* entries = root.find_value("added_tokens");
  if (!entries) return {};
  if (!entries->is_array()) return invalid("added_tokens is no list");
  for (const Json& entry : entries->as_array()) {
    COLIBRI_ASSIGN(AddedToken token, read_added_token(entry));
    if (token.content.empty()) {
      const Json* id = entry.find("id");
      return invalid("added_tokens: the token with the id " + (id ? id->dump() : "?") + " has no content");
    }
    list.add(std::move(token));
  }
  return {};
}

/// What transformers adds from tokenizer_config.json: added_tokens_decoder by id, then the tokens with a role.
Status add_from_config(const Json& config, AddedTokenList& list) {
  std::vector<std::pair<int64_t, const Json*>> entries;
  if (const Json* decoder = config.find_value("added_tokens_decoder"); decoder && decoder->is_object()) {
    for (const auto& [key, entry] : decoder->as_object()) {
      int64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size()) {
        return invalid("tokenizer_config.json: added_tokens_decoder: \"" + key + "\" is no id");
      }
      entries.emplace_back(id, &entry);
    }
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [id, entry] : entries) {
    COLIBRI_ASSIGN(AddedToken token, read_added_token(*entry));
    list.add(std::move(token));
  }
  for (const char* role :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    list.add_role(config.find(role));
  }
  if (const Json* more = config.find("additional_special_tokens"); more && more->is_array()) {
    for (const Json& token : more->as_array()) list.add_role(&token);
  }
  return {};
}

Result<std::unique_ptr<Tokenizer::Tables>> build_model(const Json& root, const Json& config, size_t file_bytes,
                                                       bool byte_level) {
  const Json* model = root.find("model");
  if (!model || !model->is_object()) return invalid("lacks the object model");
  COLIBRI_ASSIGN(auto vocabulary, read_vocabulary(*model, file_bytes));
  COLIBRI_ASSIGN(const auto options, read_options(*model, vocabulary, byte_level));
  COLIBRI_ASSIGN(const auto rules, read_merges(*model));
  AddedTokenList list(vocabulary);
  COLIBRI_TRY(add_from_tokenizer(root, list));
  COLIBRI_TRY(add_from_config(config, list));
  const std::vector<AddedToken> added = list.tokens();
  std::vector<std::string> special;
  for (const AddedToken& token : added) {
    if (token.special) special.push_back(token.content);
  }
  COLIBRI_ASSIGN(auto bpe, Bpe::create(std::move(vocabulary), rules, options, special));
  auto tables = std::make_unique<Tokenizer::Tables>(std::move(bpe));
  for (const AddedToken& token : added) COLIBRI_TRY(tables->added.add(token));
  return tables;
}

TokenId role_id(const Tokenizer::Tables& tables, const Json* json) {
  if (json && json->is_object()) json = json->find("content");
  if (!json || !json->is_string()) return -1;
  const AddedToken* added = tables.added.find(json->as_string());
  return added ? added->id : tables.bpe.vocabulary().find(json->as_string());
}

Result<std::unique_ptr<Tokenizer::Tables>> build(std::string_view text, const Json& config) {
  COLIBRI_ASSIGN(const Json root, parse_json_file(text));
  COLIBRI_ASSIGN(auto pre_tokenizer, PreTokenizer::parse(root.find("pre_tokenizer")));
  COLIBRI_ASSIGN(auto tables, build_model(root, config, text.size(), pre_tokenizer.is_byte_level()));
  tables->pre_tokenizer = std::move(pre_tokenizer);
  COLIBRI_ASSIGN(tables->normalizer, Normalizer::parse(root.find("normalizer")));
  COLIBRI_ASSIGN(tables->decoder, Decoder::parse(root.find("decoder")));
  COLIBRI_ASSIGN(auto around, PostProcessor::parse(root.find("post_processor")));
  tables->prefix = std::move(around.prefix);
  tables->suffix = std::move(around.suffix);
  tables->bos = role_id(*tables, config.find("bos_token"));
  tables->eos = role_id(*tables, config.find("eos_token"));
  tables->finish();
  for (const TokenIds* ids : {&tables->prefix, &tables->suffix}) {
    for (const TokenId id : *ids) {
      if (id >= tables->vocab_size) return invalid("post-processor: there is no token " + std::to_string(id));
    }
  }
  return tables;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, const Json& config, const std::string& source) {
  auto tables = build(tokenizer_json, config);
  if (!tables.ok()) return std::move(tables).with_context(source).error();
  return Tokenizer(std::move(tables).value());
}

}  // namespace colibri::text
