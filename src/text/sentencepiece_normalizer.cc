#include "text/sentencepiece_normalizer.h"

#include "text/utf8.h"

namespace colibri::text {

/// The normal form of what stands at the front.
SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view rest) const {
  if (user_defined.may_start(rest[0])) {
    if (const StringSet::Hit hit = user_defined.longest_at(rest, 0); hit.length > 0) {
      return {rest.substr(0, hit.length), hit.length};
    }
  }
  if (const Charsmap::Hit hit = charsmap.longest(rest); hit.length > 0) return {hit.text, hit.length};
  size_t end = 0;
  next_character(rest, end);
  return {rest.substr(0, end), end};
}

void SentencePieceNormalizer::append(std::string_view text, std::string& out) const {
  for (const char c : text) c == ' ' ? void(out.append(blank())) : out.push_back(c);
}

void SentencePieceNormalizer::apply(std::string& text) const {
  std::string_view rest = text;
  while (remove_extra_whitespaces && !rest.empty()) {
    const Step first = step(rest);
    if (first.text != " ") break;
    rest.remove_prefix(first.consumed);
  }
  if (rest.empty()) return text.clear();
  std::string out;
  out.reserve(text.size() + text.size() / 2 + 3);
  if (add_dummy_prefix && !whitespace_as_suffix) out.append(blank());
  bool after_blank = remove_extra_whitespaces;
  while (!rest.empty()) {
    Step next = step(rest);
    rest.remove_prefix(next.consumed);
    while (after_blank && next.text.starts_with(' ')) next.text.remove_prefix(1);
    if (next.text.empty()) continue;
    append(next.text, out);
    after_blank = remove_extra_whitespaces && next.text.ends_with(' ');
  }
  while (remove_extra_whitespaces && out.ends_with(blank())) out.resize(out.size() - blank().size());
  if (add_dummy_prefix && whitespace_as_suffix) out.append(blank());
  text = std::move(out);
}

}  // namespace colibri::text
