#include "text/normalizer.h"

#include "text/base64.h"
#include "text/byte_level.h"
#include "text/component.h"
#include "text/utf8.h"

namespace colibri::text {
namespace {

void strip(std::string& text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  for (size_t next = begin; left && begin < end && is_whitespace(next_character(text, next));) begin = next;
  while (right && end > begin) {
    const size_t start = previous_start(text, end);
    size_t after = start;
    if (!is_whitespace(next_character(text, after))) break;
    end = start;
  }
  text = text.substr(begin, end - begin);
}

void remove_marks(std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    if (!is_mark(next_character(text, pos))) out.append(text, start, pos - start);
  }
  text = std::move(out);
}

bool is_nmt_control(char32_t c) {
  return (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}

bool is_nmt_blank(char32_t c) {
  return c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
         c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

void normalize_nmt(std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = next_character(text, pos);
    if (is_nmt_control(c)) continue;
    is_nmt_blank(c) ? void(out.push_back(' ')) : void(out.append(text, start, pos - start));
  }
  text = std::move(out);
}

/// Of a grapheme that is short, the first key that it starts with replaces it all; else each character for itself.
void append_precompiled(const Charsmap& charsmap, std::string_view grapheme, std::string& out) {
  constexpr size_t kShort = 6;
  if (grapheme.size() < kShort) {
    if (const Charsmap::Hit hit = charsmap.shortest(grapheme); hit.length > 0) {
      out.append(hit.text);
      return;
    }
  }
  for (size_t pos = 0; pos < grapheme.size();) {
    const size_t start = pos;
    next_character(grapheme, pos);
    const std::string_view character = grapheme.substr(start, pos - start);
    const Charsmap::Hit hit = charsmap.shortest(character);
    out.append(hit.length > 0 ? hit.text : character);
  }
}

void normalize_precompiled(const Charsmap& charsmap, std::string& text) {
  std::string out;
  out.reserve(text.size());
  each_grapheme(text, [&](std::string_view grapheme) { append_precompiled(charsmap, grapheme, out); });
  text = std::move(out);
}

}  // namespace

struct Normalizer::Apply {
  std::string& text;
  RegexWorkspace& workspace;

  void operator()(NormalForm form) const { normalize(form, text); }
  void operator()(Lowercase) const { lowercase(text); }
  void operator()(StripAccents) const { remove_marks(text); }
  void operator()(const Replace& step) const { step.pattern.replace(text, step.content, workspace); }
  void operator()(const Strip& step) const { strip(text, step.left, step.right); }
  void operator()(Nmt) const { normalize_nmt(text); }
  void operator()(const Precompiled& step) const { normalize_precompiled(*step.charsmap, text); }
  void operator()(const SentencePiece& step) const { step->apply(text); }
  void operator()(ByteLetters) const {
    std::string out;
    append_byte_letters(text, out);
    text = std::move(out);
  }
  void operator()(const Prepend& step) const {
    if (!text.empty()) text.insert(0, step.content);
  }
};

Status Normalizer::add_replace(const Json& json) {
  const Json* pattern_json = json.find("pattern");
  COLIBRI_ASSIGN(auto pattern, Pattern::parse(pattern_json ? *pattern_json : Json()));
  COLIBRI_ASSIGN(std::string content, string_member(json, "content"));
  steps_.emplace_back(Replace{std::move(pattern), std::move(content)});
  return {};
}

Status Normalizer::add_precompiled(const Json& json) {
  COLIBRI_ASSIGN(const std::string coded, string_member(json, "precompiled_charsmap"));
  std::string blob;
  if (!append_base64(coded, blob)) return Error{ErrorCode::kInvalidModel, "precompiled_charsmap is no base64"};
  COLIBRI_ASSIGN(Charsmap charsmap, Charsmap::parse(blob));
  steps_.emplace_back(Precompiled{std::make_shared<const Charsmap>(std::move(charsmap))});
  return {};
}

Status Normalizer::add(const Json& json) {
  const std::string type = component_type(json);
  const auto put = [this](auto step) {
    steps_.emplace_back(std::move(step));
    return Status();
  };
  if (type == "NFC") return put(NormalForm::kNfc);
  if (type == "NFD") return put(NormalForm::kNfd);
  if (type == "NFKC") return put(NormalForm::kNfkc);
  if (type == "NFKD") return put(NormalForm::kNfkd);
  if (type == "Lowercase") return put(Lowercase{});
  if (type == "StripAccents") return put(StripAccents{});
  if (type == "Nmt") return put(Nmt{});
  if (type == "ByteLevel") return put(ByteLetters{});
  if (type == "Strip") return put(Strip{flag(json, "strip_left", true), flag(json, "strip_right", true)});
  if (type == "Replace") return add_replace(json);
  if (type == "Precompiled") return add_precompiled(json);
  if (type == "Prepend") {
    COLIBRI_ASSIGN(std::string content, string_member(json, "prepend"));
    return put(Prepend{std::move(content)});
  }
  return unsupported_component("normalizer", json);
}

Result<Normalizer> Normalizer::parse(const Json* json) {
  COLIBRI_ASSIGN(const auto parts, flatten(json, "normalizers"));
  Normalizer normalizer;
  for (const Json* part : parts) COLIBRI_TRY(normalizer.add(*part));
  return normalizer;
}

Normalizer Normalizer::normal_form(NormalForm form) {
  Normalizer normalizer;
  normalizer.steps_.emplace_back(form);
  return normalizer;
}

Normalizer Normalizer::sentencepiece(SentencePieceNormalizer step) {
  Normalizer normalizer;
  normalizer.steps_.emplace_back(std::make_shared<const SentencePieceNormalizer>(std::move(step)));
  return normalizer;
}

void Normalizer::apply(std::string& text, RegexWorkspace& workspace) const {
  for (const Step& step : steps_) std::visit(Apply{text, workspace}, step);
}

}  // namespace colibri::text
