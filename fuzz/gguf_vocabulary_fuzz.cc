// The vocabulary of a GGUF file. Input, by lines: model, pre-tokeniser, flags and ids ("bos eos add_bos add_eos"), then
// the text to encode; then a token per line, its type before it as one digit; after an empty line a merge per line.
#include <cstdlib>

#include "fuzz.h"
#include "tokenizer.h"

namespace {

class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  std::string next() {
    const auto [line, rest] = colibri::fuzz::cut(rest_, '\n');
    rest_ = rest;
    return std::string(line);
  }

 private:
  std::string_view rest_;
};

void read_ids(const std::string& line, colibri::text::GgufVocabulary& vocabulary) {
  char* end = nullptr;
  vocabulary.bos_id = std::strtoll(line.c_str(), &end, 10);
  vocabulary.eos_id = std::strtoll(end, &end, 10);
  vocabulary.add_bos = std::strtol(end, &end, 10) != 0;
  vocabulary.add_eos = std::strtol(end, &end, 10) != 0;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Lines lines(colibri::fuzz::text_of(data, size));
  colibri::text::GgufVocabulary vocabulary;
  vocabulary.model = lines.next();
  vocabulary.pre = lines.next();
  read_ids(lines.next(), vocabulary);
  const std::string text = lines.next();
  for (std::string line; !lines.done() && !(line = lines.next()).empty();) {
    if (line[0] != '-') vocabulary.token_types.push_back(line[0] - '0');  // "-": one type too few
    vocabulary.tokens.push_back(line.substr(1));
  }
  while (!lines.done()) vocabulary.merges.push_back(lines.next());
  const auto tokenizer = colibri::text::Tokenizer::from_gguf(vocabulary, "model.gguf");
  if (tokenizer.ok()) colibri::fuzz::exercise(*tokenizer, text.empty() ? colibri::fuzz::kSampleText : text);
  return 0;
}
