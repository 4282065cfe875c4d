#include "text/pattern.h"

namespace colibri::text {

Result<Pattern> Pattern::parse(const Json& json) {
  if (const Json* text = json.find("String"); text && text->is_string()) return literal(text->as_string());
  if (const Json* text = json.find("Regex"); text && text->is_string()) return regex(text->as_string());
  return Error{ErrorCode::kInvalidModel, "a pattern must be {\"String\": ...} or {\"Regex\": ...}"};
}

Result<Pattern> Pattern::regex(std::string_view pattern) {
  COLIBRI_ASSIGN(auto compiled, Regex::compile(pattern));
  return Pattern({}, std::move(compiled));
}

bool Pattern::replace(std::string& text, std::string_view content, RegexWorkspace& workspace) const {
  std::string out;
  size_t done = 0;
  bool any = false;
  for_each_match(text, workspace, [&](size_t begin, size_t end) {
    out.append(text, done, begin - done).append(content);
    done = end;
    any = true;
  });
  if (!any) return false;
  out.append(text, done);
  text = std::move(out);
  return true;
}

}  // namespace colibri::text
