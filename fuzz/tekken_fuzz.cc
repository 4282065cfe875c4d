// tekken.json. Input: the file; after a NUL byte, which JSON cannot hold, a text to encode.
#include "fuzz.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [json, text] = colibri::fuzz::cut(colibri::fuzz::text_of(data, size), '\0');
  const auto tokenizer = colibri::text::Tokenizer::from_tekken(json, colibri::Json(), "tekken.json");
  if (tokenizer.ok()) colibri::fuzz::exercise(*tokenizer, text.empty() ? colibri::fuzz::kSampleText : text);
  return 0;
}
