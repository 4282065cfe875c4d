// Reading the components of a tokenizer.json: objects with a "type" and optional members.
//
// Used by the parsers of normalizers, pre-tokenizers, post-processors and decoders. Thread-safety: free functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace colibri::text {

/// The member "type"; an empty string when there is none.
std::string component_type(const Json& json);

/// A boolean member, or `fallback` when it is absent or no boolean.
bool flag(const Json& json, std::string_view key, bool fallback);

/// A string member, or an error that names it.
Result<std::string> string_member(const Json& json, std::string_view key);

/// A string member of exactly one character.
Result<std::string> character_member(const Json& json, std::string_view key);

/// `json` itself, or, for a Sequence, its members in `key`, nested sequences opened; null gives none. At most 64.
Result<std::vector<const Json*>> flatten(const Json* json, std::string_view key);

/// "normalizer Foo is not supported".
Error unsupported_component(std::string_view what, const Json& json);

/// Metaspace (pre-tokenizer and decoder): which pieces get a mark in front.
enum class PrependScheme { kFirst, kAlways, kNever };
Result<PrependScheme> prepend_scheme(const Json& json);

}  // namespace colibri::text
