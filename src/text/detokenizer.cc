#include "text/detokenizer.h"

#include <algorithm>

#include "text/tables.h"

namespace colibri::text {

struct Detokenizer::Stream {
  DecodeStream decode;
};

Detokenizer::Detokenizer(Tokenizer tokenizer, bool skip_special, TokenIds kept)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      kept_(std::move(kept)),
      stream_(new Stream{DecodeStream(tokenizer_.tables_->decoder, tokenizer_.tables_->longest_spelling)}) {
  std::sort(kept_.begin(), kept_.end());
}
Detokenizer::Detokenizer(Detokenizer&&) noexcept = default;
Detokenizer& Detokenizer::operator=(Detokenizer&&) noexcept = default;
Detokenizer::~Detokenizer() = default;

void Detokenizer::push(TokenId id, std::string& out) {
  const std::string_view spelling = tokenizer_.spelling(id);
  const bool skipped =
      skip_special_ && tokenizer_.is_special(id) && !std::binary_search(kept_.begin(), kept_.end(), id);
  if (!spelling.empty() && !skipped) stream_->decode.push(spelling, out);
}

void Detokenizer::finish(std::string& out) { stream_->decode.finish(out); }

}  // namespace colibri::text
