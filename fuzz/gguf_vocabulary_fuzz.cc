// The vocabulary of a GGUF file. Input, by lines: model, pre-tokeniser, flags and ids ("bos eos add_bos add_eos unknown
// add_space_prefix remove_extra_whitespaces scores"), then the text to encode; then a token per line, its type before
// it as one digit; after an empty line a merge per line. scores: 0 none, 1 falling by line, else from a hash of the
// token.
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

/// Gives the kind of scores.
long read_ids(const std::string& line, colibri::text::GgufVocabulary& vocabulary) {
  char* end = nullptr;
  vocabulary.bos_id = std::strtoll(line.c_str(), &end, 10);
  vocabulary.eos_id = std::strtoll(end, &end, 10);
  vocabulary.add_bos = std::strtol(end, &end, 10) != 0;
  vocabulary.add_eos = std::strtol(end, &end, 10) != 0;
  vocabulary.unknown_id = std::strtoll(end, &end, 10);
  vocabulary.add_space_prefix = std::strtol(end, &end, 10) != 0;
  vocabulary.remove_extra_whitespaces = std::strtol(end, &end, 10) != 0;
  return std::strtol(end, &end, 10);
}

float score_of(const std::string& token, size_t line, long kind) {
  if (kind == 1) return -static_cast<float>(line);
  unsigned hash = 7;
  for (const char c : token) hash = hash * 31 + static_cast<unsigned char>(c);
  return static_cast<float>(hash % 16) - 12;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Lines lines(colibri::fuzz::text_of(data, size));
  colibri::text::GgufVocabulary vocabulary;
  vocabulary.model = lines.next();
  vocabulary.pre = lines.next();
  const long scores = read_ids(lines.next(), vocabulary);
  const std::string text = lines.next();
  for (std::string line; !lines.done() && !(line = lines.next()).empty();) {
    if (line[0] != '-') vocabulary.token_types.push_back(line[0] - '0');  // "-": one type too few
    vocabulary.tokens.push_back(line.substr(1));
    if (scores != 0) vocabulary.scores.push_back(score_of(line, vocabulary.tokens.size(), scores));
  }
  while (!lines.done()) vocabulary.merges.push_back(lines.next());
  const auto tokenizer = colibri::text::Tokenizer::from_gguf(vocabulary, "model.gguf");
  if (tokenizer.ok()) colibri::fuzz::exercise(*tokenizer, text.empty() ? colibri::fuzz::kSampleText : text);
  return 0;
}
