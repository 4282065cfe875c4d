// Tokenizer::from_sentencepiece: a tokenizer from a tokenizer.model.
//
// Ids are those of the library for text without special tokens. Control tokens in a text, which the library does not
// look for, cut it, and each part gets the dummy blank that the model asks for, as transformers does it for such files
// ("legacy"); with "legacy": false in tokenizer_config.json only the beginning of the whole text gets one.
#include <limits>

#include "base/foreign_text.h"
#include "text/added_token_list.h"
#include "text/component.h"
#include "text/components.h"
#include "text/ranked_merges.h"
#include "text/sentencepiece_model.h"
#include "text/tables.h"

namespace colibri::text {
namespace {

using Piece = SentencePieceModel::Piece;

constexpr std::string_view kFirstOnly =
    R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":false})";

class Builder {
 public:
  Builder(SentencePieceModel model, const Json& config) : model_(std::move(model)), config_(config) {}

  Result<std::unique_ptr<Tokenizer::Tables>> run() {
    if (model_.algorithm != SentencePieceModel::kBpe && model_.algorithm != SentencePieceModel::kUnigram) {
      return Error{ErrorCode::kUnsupported, "a SentencePiece model of the type " + std::to_string(model_.algorithm) +
                                                " (WORD or CHAR); BPE and UNIGRAM are supported"};
    }
    Vocabulary vocabulary = read_pieces();
    AddedTokenList list(vocabulary, AddedTokenList::Ids::kNamed);
    COLIBRI_TRY(collect_added(list));
    COLIBRI_ASSIGN(auto charsmap, Charsmap::parse(model_.precompiled_charsmap));
    COLIBRI_ASSIGN(auto tables, build_model(std::move(vocabulary), list));
    set_components(std::move(charsmap), *tables);
    set_ends(*tables);
    tables->finish();
    return tables;
  }

 private:
  bool is_bpe() const { return model_.algorithm == SentencePieceModel::kBpe; }
  TokenId id_or_none(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < model_.pieces.size() ? id : -1; }

  Vocabulary read_pieces() const {
    size_t n_bytes = 0;
    for (const Piece& piece : model_.pieces) n_bytes += piece.text.size();
    Vocabulary vocabulary(model_.pieces.size(), model_.pieces.size(), n_bytes);
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      vocabulary.insert(static_cast<TokenId>(id), model_.pieces[id].text);
    }
    return vocabulary;
  }

  /// Control and unknown pieces are special tokens, whatever tokenizer_config.json adds comes after them.
  Status collect_added(AddedTokenList& list) const {
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      const Piece& piece = model_.pieces[id];
      if (piece.type != SentencePieceModel::kControl && piece.type != SentencePieceModel::kUnknown) continue;
      AddedToken token;
      token.content = piece.text;
      token.id = static_cast<TokenId>(id);
      token.special = true;
      list.add(std::move(token));
    }
    return list.add_from_config(config_);
  }

  std::vector<bool> pieces_of_type(int32_t type) const {
    std::vector<bool> out;
    out.reserve(model_.pieces.size());
    for (const Piece& piece : model_.pieces) out.push_back(piece.type == type);
    return out;
  }

  Result<std::unique_ptr<Tokenizer::Tables>> build_model(Vocabulary vocabulary, const AddedTokenList& list) const {
    const std::vector<AddedToken> added = list.tokens();
    if (!is_bpe()) {
      COLIBRI_ASSIGN(auto unigram, build_unigram(std::move(vocabulary)));
      return Tokenizer::Tables::create(std::move(unigram), added);
    }
    COLIBRI_ASSIGN(auto bpe, build_bpe(std::move(vocabulary), list.special()));
    return Tokenizer::Tables::create(std::move(bpe), added);
  }

  Result<Bpe> build_bpe(Vocabulary vocabulary, const std::vector<std::string>& special) const {
    std::vector<float> scores;
    scores.reserve(model_.pieces.size());
    for (const Piece& piece : model_.pieces) scores.push_back(piece.score);
    COLIBRI_ASSIGN(const auto ranks, ranks_of_scores(scores, pieces_of_type(SentencePieceModel::kNormal)));
    BpeOptions options;
    options.byte_fallback = model_.byte_fallback;
    options.fuse_unknown = true;
    options.unknown = id_or_none(model_.unknown_id);
    for (size_t id = 0; id < model_.pieces.size(); ++id) {
      if (model_.pieces[id].type == SentencePieceModel::kUserDefined) {
        options.user_defined.push_back(static_cast<TokenId>(id));
      }
    }
    return Bpe::create_ranked(std::move(vocabulary), ranks, options, special);
  }

  /// A user-defined piece always wins: it costs less than any other way to cover its text.
  Result<Unigram> build_unigram(Vocabulary vocabulary) const {
    float worst = std::numeric_limits<float>::max(), best = std::numeric_limits<float>::lowest();
    for (const Piece& piece : model_.pieces) {
      if (piece.type != SentencePieceModel::kNormal) continue;
      worst = std::min(worst, piece.score);
      best = std::max(best, piece.score);
    }
    std::vector<double> scores;
    std::vector<bool> usable;
    for (const Piece& piece : model_.pieces) {
      const bool user_defined = piece.type == SentencePieceModel::kUserDefined;
      scores.push_back(user_defined ? static_cast<double>(static_cast<float>(piece.text.size()) * best) - 0.1
                                    : static_cast<double>(piece.score));
      usable.push_back(user_defined || piece.type == SentencePieceModel::kNormal);
    }
    UnigramOptions options;
    options.unknown = id_or_none(model_.unknown_id);
    options.unknown_score = worst - static_cast<float>(kUnknownPenalty);
    options.byte_fallback = model_.byte_fallback;
    options.single_precision = true;
    return Unigram::create(std::move(vocabulary), std::move(scores), usable, options);
  }

  void set_components(Charsmap charsmap, Tokenizer::Tables& tables) const {
    const bool first_only = !flag(config_, "legacy", true) && model_.add_dummy_prefix && model_.escape_whitespaces &&
                            !model_.whitespace_as_suffix;
    SentencePieceNormalizer step;
    step.charsmap = std::move(charsmap);
    std::vector<std::pair<std::string, uint32_t>> user_defined;
    for (const Piece& piece : model_.pieces) {
      if (piece.type == SentencePieceModel::kUserDefined) user_defined.emplace_back(piece.text, 0);
    }
    step.user_defined.build(std::move(user_defined));
    step.add_dummy_prefix = model_.add_dummy_prefix && !first_only;
    step.remove_extra_whitespaces = model_.remove_extra_whitespaces;
    step.escape_whitespaces = model_.escape_whitespaces;
    step.whitespace_as_suffix = model_.whitespace_as_suffix;
    tables.normalizer = Normalizer::sentencepiece(std::move(step));
    if (first_only) {
      const Json metaspace = parse_json(kFirstOnly).value();
      tables.pre_tokenizer = PreTokenizer::parse(&metaspace).value();
    }
    tables.decoder = sentencepiece_decoder(model_.remove_extra_whitespaces ? kStripAll
                                           : model_.add_dummy_prefix       ? 1
                                                                           : 0);
  }

  /// BPE models (Llama, Mistral) are used with BOS, Unigram models (T5) with EOS, unless the configuration says it.
  void set_ends(Tokenizer::Tables& tables) const {
    tables.bos = tables.role_id(config_.find("bos_token"));
    tables.eos = tables.role_id(config_.find("eos_token"));
    if (tables.bos < 0) tables.bos = id_or_none(model_.bos_id);
    if (tables.eos < 0) tables.eos = id_or_none(model_.eos_id);
    if (tables.bos >= 0 && flag(config_, "add_bos_token", is_bpe())) tables.prefix.push_back(tables.bos);
    if (tables.eos >= 0 && flag(config_, "add_eos_token", !is_bpe())) tables.suffix.push_back(tables.eos);
  }

  const SentencePieceModel model_;
  const Json& config_;
};

Result<std::unique_ptr<Tokenizer::Tables>> build(std::string_view bytes, const Json& config) {
  if (std::string what = describe_foreign_text(bytes); !what.empty()) {
    return Error{ErrorCode::kInvalidModel, std::move(what)};
  }
  COLIBRI_ASSIGN(auto model, SentencePieceModel::parse(bytes));
  return Builder(std::move(model), config).run();
}

}  // namespace

Result<Tokenizer> Tokenizer::from_sentencepiece(std::string_view model, const Json& config, const std::string& source) {
  return from_tables(build(model, config), source);
}

}  // namespace colibri::text
