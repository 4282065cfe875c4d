// A constraint, and a walk over the tokens that it allows: a line feed divides the document from the choices.
#include "fuzz.h"
#include "sampling/constraint.h"

namespace {

using colibri::sampling::TokenTexts;

const TokenTexts& texts() {
  static const TokenTexts made = [] {
    std::vector<TokenTexts::Token> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), false});
    for (const char* text : {"{\"", "\":", "\",", "\"}", "[[", "]]", "true", "ab", "\xC3\xA9", "\xE2\x82", "\n  "})
      tokens.push_back({text, false});
    tokens.push_back({"<call>", true});
    tokens.push_back({"<end>", true});
    const colibri::TokenId ends[] = {static_cast<colibri::TokenId>(tokens.size() - 1)};
    return TokenTexts::build(tokens, ends);
  }();
  return made;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto [document, choices] = colibri::fuzz::cut(colibri::fuzz::text_of(data, size), '\n');
  const auto constraint = colibri::sampling::Constraint::parse(document, texts());
  if (!constraint.ok()) {
    COLIBRI_CHECK(!constraint.error().message.empty());
    return 0;
  }
  colibri::sampling::ConstraintState state(*constraint, texts());
  for (const char choice : choices.substr(0, 200)) {
    const colibri::sampling::TokenMask& allowed = state.allowed();
    const int64_t n = allowed.count();
    COLIBRI_CHECK(n > 0);  // no dead ends
    COLIBRI_CHECK(allowed.test(texts().end_ids()[0]) == state.complete());
    COLIBRI_CHECK(!state.must_end() || n == 1);
    int64_t left = static_cast<uint8_t>(choice) % n;
    colibri::TokenId token = -1;
    allowed.for_each([&](colibri::TokenId id) {
      if (left-- == 0) token = id;
    });
    COLIBRI_CHECK(state.accept(token));
    if (texts().is_end(token)) break;
  }
  return 0;
}
