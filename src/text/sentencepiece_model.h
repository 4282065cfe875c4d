// SentencePieceModel: what a tokenizer.model holds; a reader of just that protobuf message (sentencepiece_model.proto).
//
// Every length is checked against the bytes that are there; unknown fields are skipped, as protobuf wants it.
// Used by tokenizer_sentencepiece.cc. Ownership: a value. Thread-safety: a plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace colibri::text {

struct SentencePieceModel {
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    int32_t type = kNormal;
  };
  enum Algorithm { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<Piece> pieces;  // the index is the id
  int32_t algorithm = kUnigram;
  bool whitespace_as_suffix = false;
  bool byte_fallback = false;
  int32_t unknown_id = 0, bos_id = 1, eos_id = 2;
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;

  /// kInvalidModel when the bytes are no such message, or a piece is no UTF-8.
  static Result<SentencePieceModel> parse(std::string_view bytes);
};

}  // namespace colibri::text
