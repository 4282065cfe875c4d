// Lexer: template source -> tokens, with jinja's white space rules already applied to the text between tags.
//
// trim_blocks, lstrip_blocks, the - and + markers, raw blocks and comments end here: the parser sees plain data.
// Tokens name text of the (newline-normalised) source or, for string literals with escapes, of `heap`.
// Thread-safety: pure function.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja/heap.h"
#include "text/jinja/pieces.h"

namespace colibri::text::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kTilde,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAssign,
  kDot,
  kComma,
  kColon,
  kSemicolon,
  kPipe,
  kLeftParen,
  kRightParen,
  kLeftBracket,
  kRightBracket,
  kLeftBrace,
  kRightBrace,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string_view text;  ///< data, name, operator as written, string without quotes and escapes
  int64_t integer = 0;
  double real = 0;
};

/// What jinja reads: \r\n and \r become \n, one newline at the very end goes.
std::string normalize_newlines(std::string_view source);

/// A syntax error, as every stage of parsing reports it: kInvalidModel, "template NAME, line N: MESSAGE".
Error syntax_error(std::string_view template_name, int line, Pieces message);

/// The last token is kEnd. `source` is normalised and valid UTF-8.
Result<std::vector<Token>> tokenize(std::string_view source, std::string_view template_name, Heap& heap);

}  // namespace colibri::text::jinja
