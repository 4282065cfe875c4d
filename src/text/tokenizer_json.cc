// Tokenizer::from_json: a tokenizer from a tokenizer.json and a tokenizer_config.json.
#include <algorithm>
#include <limits>

#include "base/foreign_text.h"
#include "text/added_token_list.h"
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

Status add_from_tokenizer(const Json& root, AddedTokenList& list) {
  const Json* entries = root.find_value("added_tokens");
  if (!entries) return {};
  if (!entries->is_array()) return invalid("added_tokens is no list");
  for (const Json& entry : entries->as_array()) {
    const Json* id = entry.find("id");
    COLIBRI_TRY(list.add(entry, id && id->is_int() ? id->as_int() : -1));
  }
  return {};
}

/// The scores of [["piece", score], ...]; the index is the id.
Result<std::vector<double>> read_scores(const Json::Array& entries) {
  std::vector<double> scores;
  scores.reserve(entries.size());
  for (const Json& entry : entries) {
    const bool pair = entry.is_array() && entry.as_array().size() == 2;
    if (!pair || !entry.as_array()[0].is_string() || !entry.as_array()[1].is_number()) {
      return invalid("vocab: " + entry.dump() + " is no [text, score]");
    }
    scores.push_back(entry.as_array()[1].as_double());
  }
  return scores;
}

Vocabulary read_pieces(const Json::Array& entries) {
  size_t n_bytes = 0;
  for (const Json& entry : entries) n_bytes += entry.as_array()[0].as_string().size();
  Vocabulary vocabulary(entries.size(), entries.size(), n_bytes);
  for (size_t id = 0; id < entries.size(); ++id) {
    vocabulary.insert(static_cast<TokenId>(id), entries[id].as_array()[0].as_string());
  }
  return vocabulary;
}

/// One model of a tokenizer.json: its vocabulary first, on which the added tokens depend, and then the rest of it.
class ModelReader {
 public:
  ModelReader(const Json& root, const Json& config) : root_(root), config_(config) {}

  Result<std::unique_ptr<Tokenizer::Tables>> run(size_t file_bytes, bool byte_level) {
    const Json* model = root_.find("model");
    if (!model || !model->is_object()) return invalid("lacks the object model");
    const Json* vocab = model->find("vocab");
    std::string type = component_type(*model);
    if (type.empty() && !model->find("type")) type = vocab && vocab->is_array() ? "Unigram" : "BPE";  // older files
    if (type == "BPE") return bpe(*model, file_bytes, byte_level);
    if (type != "Unigram") {
      return Error{ErrorCode::kUnsupported, "model type \"" + type + "\" is not supported; BPE and Unigram are"};
    }
    if (byte_level) return Error{ErrorCode::kUnsupported, "model Unigram with the pre-tokenizer ByteLevel"};
    if (!vocab || !vocab->is_array()) return invalid("model lacks the list vocab");
    return unigram(*model, vocab->as_array());
  }

 private:
  Result<std::unique_ptr<Tokenizer::Tables>> bpe(const Json& model, size_t file_bytes, bool byte_level) {
    COLIBRI_ASSIGN(auto vocabulary, read_vocabulary(model, file_bytes));
    COLIBRI_ASSIGN(const auto options, read_options(model, vocabulary, byte_level));
    COLIBRI_ASSIGN(const auto rules, read_merges(model));
    AddedTokenList list(vocabulary, AddedTokenList::Ids::kOfVocabulary);
    COLIBRI_TRY(read_added(list));
    COLIBRI_ASSIGN(auto bpe, Bpe::create(std::move(vocabulary), rules, options, list.special()));
    return Tokenizer::Tables::create(std::move(bpe), list.tokens());
  }

  Result<std::unique_ptr<Tokenizer::Tables>> unigram(const Json& model, const Json::Array& entries) {
    COLIBRI_ASSIGN(auto scores, read_scores(entries));
    Vocabulary vocabulary = read_pieces(entries);
    AddedTokenList list(vocabulary, AddedTokenList::Ids::kOfVocabulary);
    COLIBRI_TRY(read_added(list));
    UnigramOptions options;
    options.byte_fallback = flag(model, "byte_fallback", false);
    const Json* unknown = model.find("unk_id");
    if (unknown && unknown->is_int() && unknown->as_int() >= 0 &&
        unknown->as_int() < static_cast<int64_t>(scores.size())) {
      options.unknown = static_cast<TokenId>(unknown->as_int());
    }
    double worst = std::numeric_limits<double>::infinity();
    for (const double score : scores) worst = std::min(worst, score);
    options.unknown_score = worst - kUnknownPenalty;
    std::vector<bool> usable(scores.size(), true);
    if (options.unknown >= 0) usable[static_cast<size_t>(options.unknown)] = false;
    for (const std::string& text : list.special()) {
      if (const TokenId id = vocabulary.find(text); id >= 0) usable[static_cast<size_t>(id)] = false;
    }
    COLIBRI_ASSIGN(auto made, Unigram::create(std::move(vocabulary), std::move(scores), usable, options));
    return Tokenizer::Tables::create(std::move(made), list.tokens());
  }

  Status read_added(AddedTokenList& list) const {
    COLIBRI_TRY(add_from_tokenizer(root_, list));
    return list.add_from_config(config_);
  }

  const Json& root_;
  const Json& config_;
};

Result<std::unique_ptr<Tokenizer::Tables>> build(std::string_view text, const Json& config) {
  COLIBRI_ASSIGN(const Json root, parse_json_file(text));
  COLIBRI_ASSIGN(auto pre_tokenizer, PreTokenizer::parse(root.find("pre_tokenizer")));
  COLIBRI_ASSIGN(auto tables, ModelReader(root, config).run(text.size(), pre_tokenizer.is_byte_level()));
  tables->pre_tokenizer = std::move(pre_tokenizer);
  COLIBRI_ASSIGN(tables->normalizer, Normalizer::parse(root.find("normalizer")));
  COLIBRI_ASSIGN(tables->decoder, Decoder::parse(root.find("decoder")));
  COLIBRI_ASSIGN(auto around, PostProcessor::parse(root.find("post_processor")));
  tables->prefix = std::move(around.prefix);
  tables->suffix = std::move(around.suffix);
  tables->bos = tables->role_id(config.find("bos_token"));
  tables->eos = tables->role_id(config.find("eos_token"));
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
  return from_tables(build(tokenizer_json, config), source);
}

}  // namespace colibri::text
