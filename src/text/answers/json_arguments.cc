#include "text/answers/json_arguments.h"

namespace colibri::text {

ArgumentReader::Progress JsonArguments::read(std::string_view text, std::string& json) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!begun_ && is_blank(c)) continue;
    if (!begun_ && c != '{') return {State::kBad, i};
    begun_ = true;
    if (scanner_.in_string() && (c == '\n' || c == '\t' || c == '\r')) {
      json += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
      continue;
    }
    const JsonScanner::Step step = scanner_.feed(c);
    if (step == JsonScanner::Step::kBad) return {State::kBad, i};
    json += c;
    if (step == JsonScanner::Step::kDone) return {State::kDone, i + 1};
  }
  return {State::kMore, text.size()};
}

void JsonArguments::finish(std::string_view /*text*/, std::string& /*json*/) {}

}  // namespace colibri::text
