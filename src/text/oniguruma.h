// Translates a regular expression from Oniguruma's syntax, in which tokenizer.json is written, to PCRE2's.
//
// The two read many patterns differently and PCRE2 says nothing about it: \s and \w, \h and \v, set operations such as
// [\p{L}&&[^\p{Han}]], nested sets, x{2}+, (?m). Whatever is not known to mean the same is refused by name.
// Expects PCRE2_UTF, PCRE2_UCP, PCRE2_MULTILINE (Ruby's ^ and $ work on lines). Thread-safety: a free function.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace colibri::text {

/// kUnsupported or kInvalidModel, naming the construct. `with_additions`: properties hold the characters that PCRE2
/// does not know yet (unicode_additions.h), which makes matching slower. REQUIRES: valid UTF-8.
Result<std::string> oniguruma_to_pcre2(std::string_view pattern, bool with_additions);

}  // namespace colibri::text
