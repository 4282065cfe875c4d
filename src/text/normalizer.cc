#include "text/normalizer.h"

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

}  // namespace

struct Normalizer::Apply {
  std::string& text;
  RegexWorkspace& workspace;

  void operator()(NormalForm form) const { normalize(form, text); }
  void operator()(Lowercase) const { lowercase(text); }
  void operator()(StripAccents) const { remove_marks(text); }
  void operator()(const Replace& step) const { step.pattern.replace(text, step.content, workspace); }
  void operator()(const Strip& step) const { strip(text, step.left, step.right); }
  void operator()(const Prepend& step) const {
    if (!text.empty()) text.insert(0, step.content);
  }
};

Result<Normalizer::Step> Normalizer::parse_step(const Json& json) {
  const std::string type = component_type(json);
  if (type == "NFC") return Step(NormalForm::kNfc);
  if (type == "NFD") return Step(NormalForm::kNfd);
  if (type == "NFKC") return Step(NormalForm::kNfkc);
  if (type == "NFKD") return Step(NormalForm::kNfkd);
  if (type == "Lowercase") return Step(Lowercase{});
  if (type == "StripAccents") return Step(StripAccents{});
  if (type == "Strip") return Step(Strip{flag(json, "strip_left", true), flag(json, "strip_right", true)});
  if (type == "Prepend") {
    COLIBRI_ASSIGN(std::string content, string_member(json, "prepend"));
    return Step(Prepend{std::move(content)});
  }
  if (type == "Replace") {
    const Json* pattern_json = json.find("pattern");
    COLIBRI_ASSIGN(auto pattern, Pattern::parse(pattern_json ? *pattern_json : Json()));
    COLIBRI_ASSIGN(std::string content, string_member(json, "content"));
    return Step(Replace{std::move(pattern), std::move(content)});
  }
  return unsupported_component("normalizer", json);
}

Result<Normalizer> Normalizer::parse(const Json* json) {
  COLIBRI_ASSIGN(const auto parts, flatten(json, "normalizers"));
  Normalizer normalizer;
  for (const Json* part : parts) {
    COLIBRI_ASSIGN(auto step, parse_step(*part));
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

Normalizer Normalizer::normal_form(NormalForm form) {
  Normalizer normalizer;
  normalizer.steps_.emplace_back(form);
  return normalizer;
}

void Normalizer::apply(std::string& text, RegexWorkspace& workspace) const {
  for (const Step& step : steps_) std::visit(Apply{text, workspace}, step);
}

}  // namespace colibri::text
