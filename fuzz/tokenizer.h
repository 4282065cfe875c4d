// What must hold of every tokenizer that was accepted, whatever its tables.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace colibri::fuzz {

inline void exercise(const text::Tokenizer& tokenizer, std::string_view input) {
  for (const bool special : {false, true}) {
    const TokenIds ids = tokenizer.encode(input, {.add_special = special, .parse_special = special});
    for (const TokenId id : ids) COLIBRI_CHECK(id >= 0 && id < tokenizer.vocab_size());
    for (const bool skip : {false, true}) {
      text::Detokenizer stream(tokenizer, skip);
      std::string streamed;
      for (const TokenId id : ids) stream.push(id, streamed);
      stream.finish(streamed);
      COLIBRI_CHECK(streamed == tokenizer.decode(ids, skip));
    }
  }
  for (const TokenId id : {-1, 0, tokenizer.vocab_size() - 1, tokenizer.vocab_size(), INT32_MAX, INT32_MIN}) {
    (void)tokenizer.decode({id});
    (void)tokenizer.spelling(id);
    (void)tokenizer.is_special(id);
  }
}

constexpr std::string_view kSampleText =
    "Hello, world!  It's 12345 o'clock\n\n\t<|im_start|>user \xc3\xa9\xc3\xa8 \xe4\xbd\xa0\xe5\xa5\xbd "
    "\xf0\x9f\x98\x80\xff<s>";

}  // namespace colibri::fuzz
