// A tiktoken file. Input, by lines: the file's name, tokenizer_config.json (a line that is no JSON counts as none), the
// text to encode; then the ranks. The ranks of all single bytes are put in front unless the name ends in "!".
#include <string>

#include "fuzz.h"
#include "tokenizer.h"

namespace {

/// "AA== 0" to "/w== 255": a file without one of these is refused, which would hide everything else.
std::string single_bytes() {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (unsigned byte = 0; byte < 256; ++byte) {
    out += {kDigits[byte / 4], kDigits[byte % 4 * 16], '=', '=', ' '};
    out += std::to_string(byte) + "\n";
  }
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using colibri::fuzz::cut;
  const auto [name, behind_name] = cut(colibri::fuzz::text_of(data, size), '\n');
  const auto [config_text, behind_config] = cut(behind_name, '\n');
  const auto [text, lines] = cut(behind_config, '\n');
  const auto config = colibri::parse_json(config_text);
  std::string ranks = name.ends_with('!') ? "" : single_bytes();
  ranks += lines;
  const std::string file(name.substr(0, name.find('!')));
  const auto tokenizer = colibri::text::Tokenizer::from_tiktoken(ranks, config.ok() ? *config : colibri::Json(), file);
  if (tokenizer.ok()) colibri::fuzz::exercise(*tokenizer, text.empty() ? colibri::fuzz::kSampleText : text);
  return 0;
}
