// tokenizer.model. Input: a line with the text to encode, then the file.
#include "fuzz.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [text, model] = colibri::fuzz::cut(colibri::fuzz::text_of(data, size), '\n');
  const auto tokenizer = colibri::text::Tokenizer::from_sentencepiece(model, colibri::Json(), "tokenizer.model");
  if (tokenizer.ok()) colibri::fuzz::exercise(*tokenizer, text.empty() ? colibri::fuzz::kSampleText : text);
  return 0;
}
