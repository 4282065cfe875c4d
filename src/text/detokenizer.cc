#include "text/detokenizer.h"

#include <algorithm>

#include "text/tables.h"

namespace colibri::text {

struct Detokenizer::Stream {
  DecodeStream decode;
};

Detokenizer::Detokenizer(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      stream_(new Stream{DecodeStream(tokenizer_.tables_->decoder, tokenizer_.tables_->longest_spelling)}) {}
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

void Detokenizer::push(TokenId id, std::string& out) {
  const std::string_view spelling = tokenizer_.spelling(id);
  if (!spelling.empty() && !(skip_special_ && tokenizer_.is_special(id))) stream_->decode.push(spelling, out);
}

void Detokenizer::finish(std::string& out) { stream_->decode.finish(out); }

}  // namespace colibri::text
