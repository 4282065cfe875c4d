// TokenModel: what turns a piece of text into token ids, byte pair encoding or Unigram.
//
// Ownership: a value. Thread-safety: as the models.
#pragma once

#include <utility>
#include <variant>

#include "text/bpe.h"
#include "text/unigram.h"

namespace colibri::text {

struct TokenModelScratch {
  BpeScratch bpe;
  UnigramScratch unigram;
};

class TokenModel {
 public:
  // NOLINTBEGIN(google-explicit-constructor): either model is one
  TokenModel(Bpe model) : model_(std::move(model)) {}
  TokenModel(Unigram model) : model_(std::move(model)) {}
  // NOLINTEND(google-explicit-constructor)

  void encode(std::string_view piece, TokenModelScratch& scratch, TokenIds& out) const {
    if (const Bpe* bpe = std::get_if<Bpe>(&model_)) return bpe->encode(piece, scratch.bpe, out);
    std::get<Unigram>(model_).encode(piece, scratch.unigram, out);
  }

  const Vocabulary& vocabulary() const {
    return std::visit([](const auto& model) -> const Vocabulary& { return model.vocabulary(); }, model_);
  }

 private:
  std::variant<Bpe, Unigram> model_;
};

}  // namespace colibri::text
