// Between JSON and template values: the context, the filters tojson and from_json.
//
// Thread-safety: one render, one thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/jinja/runtime.h"

namespace colibri::text::jinja {

/// Whether strings of a Json outlive the render or must be copied.
enum class TextIs : uint8_t { kBorrowed, kCopied };

Result<Value> value_of_json(Runtime& rt, const Json& json, TextIs text, int depth = 0);

/// The arguments of Python's json.dumps that templates use.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  bool has_indent = false;
  std::string_view indent;  ///< one level of it
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
};

/// json.dumps(value, ...), as transformers' tojson calls it.
Result<Value> value_to_json(Runtime& rt, const Value& value, const JsonStyle& style);

}  // namespace colibri::text::jinja
